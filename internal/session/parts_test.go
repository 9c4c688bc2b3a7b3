package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// These are unit tests of the parts of a session that need no session.

func TestPaceLimiter(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	p := paceLimiter{last: start}
	const limit = 5 * time.Second
	if wait := p.add(start, 5*time.Second, limit); wait != 0 {
		t.Errorf("audio within the limit has to wait for %v", wait)
	}
	if wait := p.add(start, time.Second, limit); wait != time.Second {
		t.Errorf("a second over the limit has to wait for %v", wait)
	}
	if wait := p.add(start.Add(time.Second), time.Second, limit); wait != 0 {
		t.Errorf("after that second it has to wait for %v", wait)
	}
	// A long time without audio earns nothing.
	later := start.Add(time.Hour)
	if wait := p.add(later, 6*time.Second, limit); wait != time.Second {
		t.Errorf("6 s at once after an hour have to wait for %v, want 1s", wait)
	}
	// Credit is used once.
	p.credit = 2 * time.Second
	if wait := p.add(later, 7*time.Second, limit); wait != 0 || p.credit != 0 {
		t.Errorf("with a credit of 2 s, 7 s have to wait for %v; %v of the credit are left", wait, p.credit)
	}
	if wait := p.add(later, time.Second, limit); wait != time.Second {
		t.Errorf("after the credit was used, a second has to wait for %v", wait)
	}
}

func TestClosedUtterancesFindContinuableUtterance(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		utterance   *utterance
		end         utteranceEnd
		continuable bool
	}{
		"a named one after a pause":                 {&utterance{id: "u", turn: 1}, utteranceEnd{reason: reasonPause}, true},
		"an unnamed one after a pause":              {&utterance{turn: 1}, utteranceEnd{reason: reasonPause}, false},
		"an unnamed one at its maximum":             {&utterance{turn: 1}, utteranceEnd{reason: reasonMaxDuration}, true},
		"a final one":                               {&utterance{id: "u", turn: 1}, utteranceEnd{reason: reasonPause, final: true}, false},
		"one that ended in silence":                 {&utterance{id: "u", turn: 1}, utteranceEnd{reason: reasonSilence}, false},
		"one without a job that named its language": {&utterance{src: "es"}, utteranceEnd{reason: reasonPause}, true},
		"one without a job and a description":       {&utterance{}, utteranceEnd{reason: reasonPause}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l closedUtterances
			l.add(c.utterance, c.end)
			if got := l.continuable() != nil; got != c.continuable {
				t.Errorf("continuable is %v, want %v", got, c.continuable)
			}
		})
	}
}

func TestClosedUtterancesRecordParts(t *testing.T) {
	t.Parallel()
	var l closedUtterances
	l.add(&utterance{id: "u", turn: 1, request: "r"}, utteranceEnd{reason: reasonPause})
	l.add(&utterance{id: "v", turn: 2, request: "s"}, utteranceEnd{reason: reasonPause})
	part := *l.find("u")
	part.Parts++
	l.add(&utterance{id: "u", turn: 3, request: "r~1", continues: &part}, utteranceEnd{reason: reasonManual, final: true})
	want := closedUtterances{
		{Name: "v", Turn: 2, Request: "s", Reason: reasonPause},
		{Name: "u", Turn: 1, Request: "r", Parts: 1, Reason: reasonManual, Final: true},
	}
	if diff := cmp.Diff(want, l); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !l.finalize(2) || l.finalize(2) || !l.find("v").Final {
		t.Error("finalize does not report its change once")
	}
	l.remove("v")
	if l.find("v") != nil || l.find("u") == nil || l.find("") != nil {
		t.Errorf("after remove: %+v", l)
	}
}

func TestClosedUtterancesDropTheOldest(t *testing.T) {
	t.Parallel()
	var l closedUtterances
	for i := range 2 * maxClosed {
		l.add(&utterance{id: fmt.Sprint("u", i), turn: int64(i + 1)}, utteranceEnd{reason: reasonManual})
	}
	if len(l) != maxClosed || l.find(fmt.Sprint("u", maxClosed-1)) != nil || l.last().Name != fmt.Sprint("u", 2*maxClosed-1) {
		t.Errorf("%d are kept, the last is %q", len(l), l.last().Name)
	}
}

func TestRequestHistoryDropsTheOldest(t *testing.T) {
	t.Parallel()
	h := requestHistory{utterances: make(map[core.RequestID]*utterance)}
	for i := range maxRequests + 1 {
		h.add(&utterance{request: core.RequestID(fmt.Sprint("r", i))})
	}
	if h.find("r0") != nil || h.find("r1") == nil || len(h.utterances) != maxRequests {
		t.Errorf("%d requests are kept, the first: %v, the second: %v", len(h.utterances), h.find("r0"), h.find("r1"))
	}
}

func TestPartialPositionAdvances(t *testing.T) {
	t.Parallel()
	var p partialPosition
	for i, step := range []struct {
		attempt int
		rev     int64
		newer   bool
	}{{1, 1, true}, {1, 1, false}, {1, 3, true}, {1, 2, false}, {2, 1, true}, {1, 9, false}, {2, 2, true}} {
		if got := p.advance(step.attempt, step.rev); got != step.newer {
			t.Errorf("step %d: attempt %d, rev %d: %v", i, step.attempt, step.rev, got)
		}
	}
}

func TestResultQueueCacheIsBounded(t *testing.T) {
	t.Parallel()
	q := makeResultQueue()
	half := &terminalMessage{body: make([]byte, maxCachedBytes/2)}
	q.sent = 1
	for seq := range int64(5) {
		q.cache(seq, half)
	}
	var got []int64
	for seq := range int64(5) {
		if q.takeCached(seq) != nil {
			got = append(got, seq)
		}
	}
	if diff := cmp.Diff([]int64{2, 3}, got); diff != "" || q.cachedBytes != 0 {
		t.Errorf("%d bytes are left; cached (-want +got):\n%s", q.cachedBytes, diff)
	}
}

func TestResultQueueAcknowledgesOnlySentMessages(t *testing.T) {
	t.Parallel()
	q := makeResultQueue()
	q.sent, q.last = 3, 5
	if !q.acknowledge(7) || q.acked != 3 {
		t.Errorf("message %d is acknowledged, and 3 is the last that was sent", q.acked)
	}
	if q.acknowledge(2) || q.acked != 3 {
		t.Errorf("an older acknowledgement changes it to %d", q.acked)
	}
	if !q.hasUnsent() {
		t.Error("messages 4 and 5 were not sent")
	}
}

func TestResultQueueSkipsLostMessages(t *testing.T) {
	t.Parallel()
	q := makeResultQueue()
	for turn := int64(1); turn <= 4; turn++ {
		q.pending[turn] = &utterance{turn: turn}
		q.cache(turn, &terminalMessage{body: []byte("m")})
	}
	skipped := q.skipTo(3)
	sortByTurn(skipped)
	if len(skipped) != 3 || skipped[2].turn != 3 || q.sent != 3 || q.counted != 3 || len(q.cached) != 1 || len(q.pending) != 1 {
		t.Errorf("%d are skipped; sent %d, counted %d, cached %d, pending %d", len(skipped), q.sent, q.counted, len(q.cached), len(q.pending))
	}
}

func TestResultQueueCountsUnanswered(t *testing.T) {
	t.Parallel()
	q := makeResultQueue()
	q.pending[1] = &utterance{turn: 1}
	q.pending[2] = &utterance{turn: 2, result: resultState{stored: true, size: 10}}
	if n := q.unanswered(); n != 1 {
		t.Errorf("%d are unanswered; a small result that waits does not count", n)
	}
	q.pending[2].result.size = maxWaitingBytes + 1
	if n := q.unanswered(); n != 2 {
		t.Errorf("%d are unanswered; a large result that waits counts", n)
	}
}

func TestResultQueueTotals(t *testing.T) {
	t.Parallel()
	q := makeResultQueue()
	result, err := (&terminalMessage{Result: true, AudioMS: 300, body: []byte("{}")}).encode()
	if err != nil {
		t.Fatal(err)
	}
	q.countStored(store.OutboxMessage{Body: result})
	q.countStored(store.OutboxMessage{Body: []byte("not a message")})
	q.count(false, 500)
	if diff := cmp.Diff(wire.SessionEnded{Results: 1, Errors: 2, AudioMS: 300}, q.totals); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTerminalMessageSurvivesTheOutbox(t *testing.T) {
	t.Parallel()
	m := &terminalMessage{Result: true, Attempt: 2, AudioMS: 7, Speech: speechFollows, Audio: &wire.AudioFormat{Encoding: "wav"}, body: []byte(`{"type":"result"}`)}
	stored, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeTerminalMessage(stored)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, got, cmp.AllowUnexported(terminalMessage{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, broken := range []string{"", "{}", "{}\n", "no json\n{}"} {
		if _, err := decodeTerminalMessage([]byte(broken)); err == nil {
			t.Errorf("%q was read", broken)
		}
	}
}

// Only the fields tts and tts_audio differ between the stored and the sent message: the node's result stays as it is, to the
// byte.
func TestTerminalMessageText(t *testing.T) {
	t.Parallel()
	const nodeResult = `{"text_tgt":"<b> & \u2028","n":1.50,"n":2,"deep":{"tts":"follows"}}`
	result := wire.SessionResult{Seq: 1, JobID: "j", Result: json.RawMessage(nodeResult), Latency: wire.SessionLatency{StagesMS: map[string]int64{"asr": 1, "nmt": 2}}}
	body, err := wire.EncodeFrame(result)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*terminalMessage{
		"made here":            {Result: true, Speech: speechFollows, body: body, result: &result},
		"read from the outbox": {Result: true, Speech: speechFollows, body: body},
	} {
		format := wire.AudioFormat{Encoding: "wav", SampleRate: 24_000, Channels: 1}
		want := strings.TrimSuffix(string(body), "}") + `,"tts":"follows","tts_audio":{"encoding":"wav","sample_rate":24000,"channels":1}}`
		if diff := cmp.Diff(want, string(m.text(speechFollows, &format))); diff != "" {
			t.Errorf("%s: speech follows (-want +got):\n%s", name, diff)
		}
		want = strings.TrimSuffix(string(body), "}") + `,"tts":"lost"}`
		if diff := cmp.Diff(want, string(m.text(speechLost, nil))); diff != "" {
			t.Errorf("%s: speech lost (-want +got):\n%s", name, diff)
		}
		if got := m.text("", nil); !bytes.Equal(got, body) {
			t.Errorf("%s: without speech: %s", name, got)
		}
	}
	failure := &terminalMessage{body: []byte(`{"type":"error"}`)}
	if got := failure.text(speechLost, nil); !bytes.Equal(got, failure.body) {
		t.Errorf("an error: %s", got)
	}
}

// feedConn is a connection that keeps the function that feeds it.
type feedConn struct {
	Conn
	next func() []byte
}

func (c *feedConn) Feed(next func() []byte) bool {
	c.next = next
	return true
}

func TestSpeechQueueReleasesItsBuffer(t *testing.T) {
	t.Parallel()
	buffer := audio.NewBuffer(10)
	var q speechQueue
	for i, fits := range []bool{true, true, false} {
		if got := q.push(buffer, []byte("1234")); got != fits {
			t.Errorf("frame %d: %v", i, got)
		}
	}
	conn := &feedConn{}
	q.feed(buffer, conn)
	if frame := conn.next(); string(frame) != "1234" || buffer.Held() != 4 || q.isEmpty() {
		t.Errorf("frame %q; %d bytes are held", frame, buffer.Held())
	}
	first := conn.next
	conn.next = nil
	q.feed(buffer, conn) // the connection already takes the frames
	if conn.next != nil {
		t.Error("the connection was fed twice")
	}
	first()
	if first() != nil || buffer.Held() != 0 || !q.isEmpty() {
		t.Errorf("%d bytes are held after the last frame", buffer.Held())
	}
	q.push(buffer, []byte("56"))
	q.restart(buffer, 2)
	if buffer.Held() != 0 || q.isLost(2) {
		t.Errorf("%d bytes are held after a restart", buffer.Held())
	}
	q.lose(buffer)
	if !q.isLost(2) || q.isLost(1) || !q.complete {
		t.Error("the speech of attempt 2 is not lost")
	}
}

func TestNoiseFloorFollowsTheBackground(t *testing.T) {
	t.Parallel()
	var n noiseFloor
	const base = 0.01
	if got := n.threshold(base); got != base {
		t.Errorf("the threshold is %v before any audio", got)
	}
	for range 3 * time.Second / levelBlock {
		n.observe(0.02, levelBlock)
	}
	if got := n.threshold(base); !n.isKnown() || got < 0.049 || got > 0.051 {
		t.Errorf("the threshold is %v over a background of 0.02", got)
	}
	for range 4 * time.Second / levelBlock {
		n.observe(0.5, levelBlock)
	}
	if got := n.threshold(base); got != floorMax {
		t.Errorf("the threshold is %v over a loud background, at most %v", got, floorMax)
	}
	for range 4 * time.Second / levelBlock {
		n.observe(0, levelBlock)
	}
	if got := n.threshold(base); got != base {
		t.Errorf("the threshold is %v after silence", got)
	}
}
