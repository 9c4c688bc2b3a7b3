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
func loudly(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

// hurried takes audio as fast as it comes.
func hurried(c *config.Config) { c.Scheduler.Sessions.AheadMS = 600_000 }

// converse begins a session.
func (w *world) converse(more obj) *peer {
	w.t.Helper()
	s := w.connect("/ws/session")
	s.say(obj{"type": "session_start", "langs": []string{"en", "es"}}.with(more))
	s.until("session_started")
	return s
}

// utter says something short and ends it.
func (p *peer) utter() {
	p.t.Helper()
	p.sound(loudly(3200))
	p.say(obj{"type": "audio_chunk", "is_final": true})
}

// sounds reads binary frames until so many bytes of sound have come.
func (p *peer) sounds(want int) {
	p.t.Helper()
	for got := 0; got < want; {
		m := p.next()
		if m["type"] != "binary" {
			continue
		}
		_, sound, err := wire.ReadBinary(m["data"].([]byte))
		if err != nil {
			p.t.Fatal(err)
		}
		got += len(sound)
	}
}

// TestALongUtteranceReachesItsNode: it is far more than may wait for a reader, and the node reads all the time.
func TestALongUtteranceReachesItsNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hurried)
	n, s := w.socketNode("n1"), w.converse(nil)
	const seconds = 59
	for range seconds {
		s.sound(loudly(32_000))
	}
	s.say(obj{"type": "audio_chunk", "is_final": true})
	n.until("job_assign")
	n.sounds(seconds * 32_000)
}

// TestManyUtterancesReachTheirNode: each for itself would do.
func TestManyUtterancesReachTheirNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hurried)
	n := w.connect("/ws/node")
	n.say(obj{"type": "node_register", "node_id": "n1", "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 8, "active": []obj{}})
	n.until("node_register_ack")
	for range 8 {
		s := w.converse(nil)
		for range 10 {
			s.sound(loudly(32_000))
		}
		s.say(obj{"type": "audio_chunk", "is_final": true})
	}
	n.sounds(8 * 320_000)
}

// TestLongSpeechReachesItsSession: it is more than may wait for a reader, and the session reads all the time.
func TestLongSpeechReachesItsSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", obj{"nmt_pairs": [][]string{{"en", "zh"}}})
	s := w.converse(obj{"langs": []string{"en", "zh"}, "tts": true})
	s.utter()
	d, _ := w.next()
	n.ack(d, nil).ok()
	if a := w.fetch("PUT", d.TTSUpload, make([]byte, 3<<20)); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	n.done(d, obj{"result": obj{"text_tgt": "好", "tts": true}}).ok()
	s.sounds(3 << 20)
}

// TestNoMessageIsLargerThanItMayBe: a result that would make one too large is refused, whatever makes it so, and the
// utterance ends.
func TestNoMessageIsLargerThanItMayBe(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a text that is in it twice":      strings.Repeat("x", 140_000),
		"a text as large as a frame":      strings.Repeat("x", 262_000),
		"a text that grows when written":  strings.Repeat("\u2028", 50_000),
		"a text that is nearly too large": strings.Repeat("x", 128_000), // this one fits
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			n, s := w.socketNode("n1"), w.converse(nil)
			s.utter()
			for answered := false; !answered; {
				m := n.until("job_assign")
				raw := `{"type":"job_result","job_id":"` + m["job_id"].(string) + `","attempt_id":` + string(encode(t, m["attempt_id"])) + `,"result":{"text_tgt":"` + text + `"}}`
				if err := n.ws.Write(t.Context(), websocket.MessageText, []byte(raw)); err != nil {
					t.Fatal(err)
				}
				ack := n.until("job_result_ack")
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
func TestCancelRightAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n, s := w.socketNode("n1"), w.converse(nil)
	go func() { // a node that does as it is told
		for {
			_, data, err := n.ws.Read(context.Background())
			if err != nil {
				return
			}
			for said, answer := range map[string]string{"job_assign": "job_ack", "job_cancel": "job_cancelled"} {
				if text := string(data); strings.HasPrefix(text, `{"type":"`+said+`"`) {
					var m obj
					if err := json.Unmarshal(data, &m); err != nil {
						t.Error(err)
					}
					_ = n.ws.Write(context.Background(), websocket.MessageText, encode(t, obj{"type": answer, "job_id": m["job_id"], "attempt_id": m["attempt_id"]}))
				}
			}
		}
	}()
	for i := range 50 {
		id := "u" + string(encode(t, i))
		s.say(obj{"type": "utterance_start", "utterance_id": id})
		s.utter()
		s.say(obj{"type": "cancel", "utterance_id": id})
		if m := s.until("error"); m["reason"] != "CANCELLED" {
			t.Fatalf("%d: %v", i, m)
		}
	}
}

// TestBusyForAMoment: a refusal costs the job nothing, also where there is nobody else.
func TestBusyForAMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n, s := w.socketNode("n1"), w.converse(nil)
	s.utter()
	a := n.until("job_assign")
	n.say(obj{"type": "job_reject", "job_id": a["job_id"], "attempt_id": 1, "reason": "NODE_BUSY"})
	if again := n.until("job_assign"); again["attempt_id"] != 1.0 {
		t.Errorf("%v", again)
	}
}

// TestTwoSessionsNumberTheirRequestsAlike: each has its own job, and hears its own.
func TestTwoSessionsNumberTheirRequestsAlike(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.socketNode("n1")
	for _, text := range []string{"one", "two"} {
		s := w.converse(nil)
		s.say(obj{"type": "utterance_start", "request_id": "1"})
		s.utter()
		a := n.until("job_assign")
		n.say(obj{"type": "job_result", "job_id": a["job_id"], "attempt_id": 1, "result": obj{"text_tgt": text}})
		if m := s.until("result"); m["text_tgt"] != text || m["request_id"] != "1" {
			t.Errorf("%v", m)
		}
	}
}

// TestABurstOfFrames: what comes at once, as after a cut, is acknowledged, and nobody is taken for slow because of it.
func TestABurstOfFrames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hurried)
	s := w.converse(nil)
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
		if m := s.until("audio_ack"); m["seq"] == 3000.0 {
			break
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestTheReplacedConnectionSpeaks: what it still had in hand when the session went on elsewhere is not the session's.
func TestTheReplacedConnectionSpeaks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hurried)
	for range 20 {
		s := w.connect("/ws/session")
		s.say(obj{"type": "session_start", "langs": []string{"en", "es"}})
		started := s.until("session_started")
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for s.ws.Write(context.Background(), websocket.MessageBinary, make([]byte, 2)) == nil {
			}
		}()
		s.until("audio_ack")
		again := w.connect("/ws/session")
		again.say(obj{"type": "session_resume", "session_id": started["session_id"], "resume_token": started["resume_token"], "last_seq": 0})
		next := again.until("session_resumed")["next_audio_seq"].(float64)
		// A frame that leaves some out is refused, with the number that is expected.
		again.say(obj{"type": "audio_chunk", "seq": next + 100_000, "data": ""})
		if m := again.until("error"); !strings.Contains(m["detail"].(string), "the next audio frame is "+string(encode(t, next))+",") {
			t.Fatalf("told to send %v next; then %v", next, m["detail"])
		}
		_ = s.ws.CloseNow()
		<-stopped
	}
}
