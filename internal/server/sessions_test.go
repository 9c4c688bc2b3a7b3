package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// loudly is so many bytes that are not silence.
func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

// hurried takes audio as fast as it comes.
func fastAudio(c *config.Config) { c.Scheduler.Sessions.AheadMS = 600_000 }

// converse begins a session.
func (ts *testScheduler) startSession(more object) *wsClient {
	ts.t.Helper()
	s := ts.connect("/ws/session")
	s.send(object{"type": "session_start", "langs": []string{"en", "es"}}.with(more))
	s.readUntil("session_started")
	return s
}

// utter says something short and ends it.
func (c *wsClient) sendUtterance() {
	c.t.Helper()
	c.sendBinary(noise(3200))
	c.send(object{"type": "audio_chunk", "is_final": true})
}

// sounds reads binary frames until so many bytes of sound have come.
func (c *wsClient) readAudio(want int) {
	c.t.Helper()
	for got := 0; got < want; {
		m := c.read()
		if m["type"] != "binary" {
			continue
		}
		_, sound, err := wire.ReadBinary(m["data"].([]byte))
		if err != nil {
			c.t.Fatal(err)
		}
		got += len(sound)
	}
}

// TestALongUtteranceReachesItsNode: it is far more than may wait for a reader, and the node reads all the time.
func TestLongUtteranceReachesNode(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, fastAudio)
	n, s := ts.connectNode("n1"), ts.startSession(nil)
	const seconds = 59
	for range seconds {
		s.sendBinary(noise(32_000))
	}
	s.send(object{"type": "audio_chunk", "is_final": true})
	n.readUntil("job_assign")
	n.readAudio(seconds * 32_000)
}

// TestManyUtterancesReachTheirNode: each for itself would do.
func TestManyUtterancesReachNode(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, fastAudio)
	n := ts.connect("/ws/node")
	n.send(object{"type": "node_register", "node_id": "n1", "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 8, "active": []object{}})
	n.readUntil("node_register_ack")
	for range 8 {
		s := ts.startSession(nil)
		for range 10 {
			s.sendBinary(noise(32_000))
		}
		s.send(object{"type": "audio_chunk", "is_final": true})
	}
	n.readAudio(8 * 320_000)
}

// TestLongSpeechReachesItsSession: it is more than may wait for a reader, and the session reads all the time.
func TestLongSpeechReachesSession(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", object{"nmt_pairs": [][]string{{"en", "zh"}}})
	s := ts.startSession(object{"langs": []string{"en", "zh"}, "tts": true})
	s.sendUtterance()
	d, _ := ts.nextDelivery()
	n.ack(d, nil).expectOK()
	if a := ts.fetchURL("PUT", d.TTSUpload, make([]byte, 3<<20)); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	n.done(d, object{"result": object{"text_tgt": "好", "tts": true}}).expectOK()
	s.readAudio(3 << 20)
}

// TestNoMessageIsLargerThanItMayBe: a result that would make one too large is refused, whatever makes it so, and the
// utterance ends.
func TestResultTooLargeForMessage(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a text that is in it twice":      strings.Repeat("x", 140_000),
		"a text as large as a frame":      strings.Repeat("x", 262_000),
		"a text that grows when written":  strings.Repeat("\u2028", 50_000),
		"a text that is nearly too large": strings.Repeat("x", 128_000), // this one fits
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ts := startScheduler(t)
			n, s := ts.connectNode("n1"), ts.startSession(nil)
			s.sendUtterance()
			for answered := false; !answered; {
				m := n.readUntil("job_assign")
				raw := `{"type":"job_result","job_id":"` + m["job_id"].(string) + `","attempt_id":` + string(encode(t, m["attempt_id"])) + `,"result":{"text_tgt":"` + text + `"}}`
				if err := n.ws.Write(t.Context(), websocket.MessageText, []byte(raw)); err != nil {
					t.Fatal(err)
				}
				ack := n.readUntil("job_result_ack")
				if ack["accepted"] != true && ack["error"] != "PAYLOAD_TOO_LARGE" {
					t.Errorf("%v", ack)
				}
				answered = ack["accepted"] == true || m["attempt_id"] == 3.0
			}
			for ended := false; !ended; {
				_, data, err := s.ws.Read(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if len(data) > wire.MaxFrame {
					t.Errorf("a message of %d bytes", len(data))
				}
				ended = strings.HasPrefix(string(data), `{"type":"result"`) || strings.HasPrefix(string(data), `{"type":"error"`)
			}
		})
	}
}

// TestCancelRightAfterTheEnd: the utterance may be on its way to a node, and there may be no job yet.
func TestCancelRightAfterCommit(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n, s := ts.connectNode("n1"), ts.startSession(nil)
	go func() { // a node that does as it is told
		for {
			_, data, err := n.ws.Read(context.Background())
			if err != nil {
				return
			}
			for said, answer := range map[string]string{"job_assign": "job_ack", "job_cancel": "job_cancelled"} {
				if text := string(data); strings.HasPrefix(text, `{"type":"`+said+`"`) {
					var m object
					if err := json.Unmarshal(data, &m); err != nil {
						t.Error(err)
					}
					_ = n.ws.Write(context.Background(), websocket.MessageText, encode(t, object{"type": answer, "job_id": m["job_id"], "attempt_id": m["attempt_id"]}))
				}
			}
		}
	}()
	for i := range 50 {
		id := "u" + string(encode(t, i))
		s.send(object{"type": "utterance_start", "utterance_id": id})
		s.sendUtterance()
		s.send(object{"type": "cancel", "utterance_id": id})
		if m := s.readUntil("error"); m["reason"] != "CANCELLED" {
			t.Fatalf("%d: %v", i, m)
		}
	}
}

// TestBusyForAMoment: a refusal costs the job nothing, also where there is nobody else.
func TestBusyNodeIsRetriedInSameAttempt(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n, s := ts.connectNode("n1"), ts.startSession(nil)
	s.sendUtterance()
	a := n.readUntil("job_assign")
	n.send(object{"type": "job_reject", "job_id": a["job_id"], "attempt_id": 1, "reason": "NODE_BUSY"})
	if again := n.readUntil("job_assign"); again["attempt_id"] != 1.0 {
		t.Errorf("%v", again)
	}
}

// TestTwoSessionsNumberTheirRequestsAlike: each has its own job, and hears its own.
func TestSameRequestIDInTwoSessions(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.connectNode("n1")
	for _, text := range []string{"one", "two"} {
		s := ts.startSession(nil)
		s.send(object{"type": "utterance_start", "request_id": "1"})
		s.sendUtterance()
		a := n.readUntil("job_assign")
		n.send(object{"type": "job_result", "job_id": a["job_id"], "attempt_id": 1, "result": object{"text_tgt": text}})
		if m := s.readUntil("result"); m["text_tgt"] != text || m["request_id"] != "1" {
			t.Errorf("%v", m)
		}
	}
}

// TestABurstOfFrames: what comes at once, as after a cut, is acknowledged, and nobody is taken for slow because of it.
func TestBurstOfAudioFrames(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, fastAudio)
	s := ts.startSession(nil)
	done := make(chan error, 1)
	go func() {
		for range 3000 {
			if err := s.ws.Write(context.Background(), websocket.MessageBinary, make([]byte, 640)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		if m := s.readUntil("audio_ack"); m["seq"] == 3000.0 {
			break
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestTheReplacedConnectionSpeaks: what it still had in hand when the session went on elsewhere is not the session's.
func TestAudioOfReplacedConnectionIsDropped(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, fastAudio)
	for range 20 {
		s := ts.connect("/ws/session")
		s.send(object{"type": "session_start", "langs": []string{"en", "es"}})
		started := s.readUntil("session_started")
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for s.ws.Write(context.Background(), websocket.MessageBinary, make([]byte, 2)) == nil {
			}
		}()
		s.readUntil("audio_ack")
		again := ts.connect("/ws/session")
		again.send(object{"type": "session_resume", "session_id": started["session_id"], "resume_token": started["resume_token"], "last_seq": 0})
		next := again.readUntil("session_resumed")["next_audio_seq"].(float64)
		// A frame that leaves some out is refused, with the number that is expected.
		again.send(object{"type": "audio_chunk", "seq": next + 100_000, "data": ""})
		if m := again.readUntil("error"); !strings.Contains(m["detail"].(string), "the next audio frame is "+string(encode(t, next))+",") {
			t.Fatalf("told to send %v next; then %v", next, m["detail"])
		}
		_ = s.ws.CloseNow()
		<-stopped
	}
}
