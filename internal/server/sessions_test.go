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

// noise is n bytes of audio that is not silent.
func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

// fastAudio accepts audio faster than real time.
func fastAudio(c *config.Config) { c.Scheduler.Sessions.AheadMS = 600_000 }

// startSession starts a session.
func (ts *testScheduler) startSession(more object) *wsClient {
	ts.t.Helper()
	s := ts.connect("/ws/session")
	s.send(object{"type": "session_start", "langs": []string{"en", "es"}}.with(more))
	s.readUntil("session_started")
	return s
}

// sendUtterance sends a short utterance and commits it.
func (c *wsClient) sendUtterance() {
	c.t.Helper()
	c.sendBinary(noise(3200))
	c.send(object{"type": "audio_chunk", "is_final": true})
}

// readAudio reads binary frames until this many bytes of audio have come.
func (c *wsClient) readAudio(want int) {
	c.t.Helper()
	for got := 0; got < want; {
		m := c.read()
		if m["type"] != "binary" {
			continue
		}
		_, audio, err := wire.ReadBinary(m["data"].([]byte))
		if err != nil {
			c.t.Fatal(err)
		}
		got += len(audio)
	}
}

// TestLongUtteranceReachesNode: audio that is far larger than the send queue reaches a node that reads.
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

// TestManyUtterancesReachNode: the audio of several jobs together is larger than the send queue.
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

// TestLongSpeechReachesSession: speech that is larger than the send queue reaches a session that reads.
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

// TestResultTooLargeForMessage: a result that does not fit into a message is refused, and the utterance ends with an error.
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

// TestCancelRightAfterCommit: an utterance is cancelled while its job is being dispatched, or before there is one.
func TestCancelRightAfterCommit(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.connectNode("n1")
	go func() { // a node that acknowledges assignments and cancellations
		for {
			_, data, err := n.ws.Read(context.Background())
			if err != nil {
				return
			}
			for typ, answer := range map[string]string{"job_assign": "job_ack", "job_cancel": "job_cancelled"} {
				if text := string(data); strings.HasPrefix(text, `{"type":"`+typ+`"`) {
					var m object
					if err := json.Unmarshal(data, &m); err != nil {
						t.Error(err)
					}
					_ = n.ws.Write(context.Background(), websocket.MessageText, encode(t, object{"type": answer, "job_id": m["job_id"], "attempt_id": m["attempt_id"]}))
				}
			}
		}
	}()
	var s *wsClient
	for i := range 50 {
		if i%10 == 0 { // more utterances in so short a time would be too many for one session
			s = ts.startSession(nil)
		}
		id := "u" + string(encode(t, i))
		s.send(object{"type": "utterance_start", "utterance_id": id})
		s.sendUtterance()
		s.send(object{"type": "cancel", "utterance_id": id})
		if m := s.readUntil("error"); m["reason"] != "CANCELLED" {
			t.Fatalf("%d: %v", i, m)
		}
	}
}

// TestBusyNodeIsRetriedInSameAttempt: NODE_BUSY does not count as an attempt, also when there is no other node.
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

// TestSameRequestIDInTwoSessions: the same request id in two sessions is two jobs.
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

// TestBurstOfAudioFrames: thousands of frames at once, as after a reconnect, are acknowledged, and the client does not count as
// slow.
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

// TestAudioOfReplacedConnectionIsDropped: audio that a replaced connection had not handled yet does not become part of the resumed
// session.
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
		// A frame after a gap is refused, with the expected number.
		again.send(object{"type": "audio_chunk", "seq": next + 100_000, "data": ""})
		if m := again.readUntil("error"); !strings.Contains(m["detail"].(string), "the next audio frame is "+string(encode(t, next))+",") {
			t.Fatalf("the next frame should be %v; got %v", next, m["detail"])
		}
		_ = s.ws.CloseNow()
		<-stopped
	}
}

// TestLanguagesOfASession: the source and the target language, where they are given, are the two languages of the session.
func TestLanguagesOfASession(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	for _, c := range []struct {
		src, tgt any
		field    string // that is refused
		want     string // the source language of the session
	}{
		{nil, nil, "", "en"}, {"es", nil, "", "es"}, {"es", "en", "", "es"}, {nil, "es", "", "en"},
		{"fr", nil, "src_lang", ""}, {nil, "en", "tgt_lang", ""}, {"es", "es", "tgt_lang", ""}, {nil, "de", "tgt_lang", ""}, {nil, "no language", "tgt_lang", ""},
	} {
		s := ts.connect("/ws/session")
		s.send(object{"type": "session_start", "langs": []string{"en", "es"}}.with(object{"src_lang": c.src, "tgt_lang": c.tgt}))
		m := s.read()
		if c.field != "" && (m["error"] != string(wire.InvalidRequest) || m["field"] != c.field) || c.field == "" && m["src_lang"] != c.want {
			t.Errorf("from %v to %v: %v", c.src, c.tgt, m)
		}
	}
}
