package client_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

// unreliableScheduler follows the protocol over connections that break after some messages. Sometimes it loses the audio of
// utterances without a result and asks for it again.
type unreliableScheduler struct {
	random    *rand.Rand
	audio     map[int64]string // by frame; "" ends an utterance
	next      int64            // the next frame
	openFirst int64            // the first frame of the open utterance
	committed [][2]int64       // of the committed utterances
	results   []wire.SessionResult
	started   bool
	ended     bool
}

func newUnreliableScheduler(seed uint64) *unreliableScheduler {
	return &unreliableScheduler{random: rand.New(rand.NewPCG(seed, 1)), audio: make(map[int64]string), next: 1, openFirst: 1}
}

// serve handles one connection, which breaks after some messages.
func (u *unreliableScheduler) serve(p *schedulerConn) {
	if u.started {
		var r wire.SessionResume
		p.expect(&r)
		if n := len(u.results); n < len(u.committed) && u.random.IntN(3) == 0 {
			u.next = u.committed[n][0] // its audio is lost
		}
		p.send(wire.SessionResumed{Recovered: true, NextAudioSeq: u.next, LastSeq: int64(len(u.results))})
		for _, missed := range u.results[r.LastSeq:] {
			p.send(missed)
		}
	} else {
		p.answerStart(defaultLimits)
		u.started = true
	}
	for left := u.random.IntN(30); left > 0 || u.ended; left-- {
		if u.ended && len(u.results) == len(u.committed) {
			p.send(wire.SessionEnded{SessionID: "s-1", Utterances: int64(len(u.committed))})
			_ = p.ws.Close(1000, "")
			return
		}
		if waiting := len(u.results) < len(u.committed) && u.committed[len(u.results)][1] < u.next; waiting && (u.ended || u.random.IntN(3) == 0) {
			u.sendResult(p)
			continue
		}
		if !u.readMessage(p) {
			return
		}
	}
	p.drop()
}

// sendResult sends the next result, with the words of the utterance, and repeats an old one.
func (u *unreliableScheduler) sendResult(p *schedulerConn) {
	n := len(u.results)
	var words []string
	for seq := u.committed[n][0]; seq < u.committed[n][1]; seq++ {
		words = append(words, strings.TrimSpace(u.audio[seq]))
	}
	r := resultFrame(int64(n+1), int64(n))
	r.TextSrc = strings.Join(words, " ")
	u.results = append(u.results, r)
	_ = p.trySend(r, u.results[u.random.IntN(n+1)])
}

// readMessage reads one message. It returns false when the connection is lost.
func (u *unreliableScheduler) readMessage(p *schedulerConn) bool {
	typ, body, err := p.read()
	if err != nil {
		return false
	}
	var chunk wire.AudioChunk
	if typ == 2 {
		chunk.Data = body
	} else {
		switch kind, _ := wire.TypeOf(body); kind {
		case "audio_chunk":
			if err := wire.Decode(body, &chunk); err != nil {
				p.fail("%v", err)
			}
		case "session_end":
			u.ended = true
			return true
		default:
			p.fail("got %s", body)
		}
	}
	seq := u.next
	u.next++
	if chunk.Seq != 0 && chunk.Seq != seq {
		p.fail("got frame %d as %d", seq, chunk.Seq)
	}
	if old, ok := u.audio[seq]; ok && old != string(chunk.Data) {
		p.fail("frame %d was %q and is %q", seq, old, chunk.Data)
	}
	u.audio[seq] = string(chunk.Data)
	if chunk.IsFinal && seq > u.openFirst {
		n := int64(len(u.committed))
		u.committed = append(u.committed, [2]int64{u.openFirst, seq})
		u.openFirst = seq + 1
		return p.trySend(committedFrame(n, u.committed[n][0], seq)) == nil
	}
	return true
}

// However often the connection is lost, every utterance has one result, in order and complete.
func TestSessionSurvivesFrequentDisconnects(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			testWithFakeTime(t, func(t *testing.T) {
				const utterances = 25
				u := newUnreliableScheduler(seed)
				f := newInMemoryScheduler(t)
				f.always = u.serve
				s := startSession(t, f.config())
				var want []string
				go func() {
					for u := range utterances {
						for w := range 1 + u%4 {
							_, _ = fmt.Fprintf(s, "%8s", fmt.Sprint("w", u, ".", w))
						}
						_ = s.Commit()
					}
					_ = s.End()
				}()
				for u := range utterances {
					var words []string
					for w := range 1 + u%4 {
						words = append(words, fmt.Sprint("w", u, ".", w))
					}
					want = append(want, strings.Join(words, " "))
				}
				var got []string
				disconnects := 0
				for e, err := range s.Events() {
					switch e := e.(type) {
					case client.Result:
						got = append(got, e.TextSrc)
					case client.SessionResumed:
						disconnects++
					}
					if err != nil {
						t.Error(err)
					}
				}
				if disconnects == 0 {
					t.Error("no connection was lost")
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("after %d disconnects (-want +got):\n%s", disconnects, diff)
				}
			})
		})
	}
}
