package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// peer is one end of a socket, spoken by hand.
type peer struct {
	t    testing.TB
	ws   *websocket.Conn
	path string
}

func (w *world) connect(path string) *peer {
	w.t.Helper()
	p, err := w.tryConnect(path)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) tryConnect(path string) (*peer, error) {
	w.t.Helper()
	ws, _, err := websocket.Dial(w.t.Context(), strings.Replace(w.url, "http", "ws", 1)+path, &websocket.DialOptions{Subprotocols: []string{wire.Subprotocol}})
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(-1)
	w.t.Cleanup(func() { _ = ws.CloseNow() })
	return &peer{t: w.t, ws: ws, path: path}, nil
}

func (p *peer) say(body obj) {
	p.t.Helper()
	if err := p.ws.Write(p.t.Context(), websocket.MessageText, encode(p.t, body)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) sound(data []byte) {
	p.t.Helper()
	if err := p.ws.Write(p.t.Context(), websocket.MessageBinary, data); err != nil {
		p.t.Fatal(err)
	}
}

// next reads one message: an object, or a binary frame under "binary".
func (p *peer) next() obj {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	typ, data, err := p.ws.Read(ctx)
	if err != nil {
		p.t.Fatalf("read: %v", err)
	}
	if typ == websocket.MessageBinary {
		return obj{"type": "binary", "data": data}
	}
	checkFrame(p.t, p.path, sent, data)
	var m obj
	if err := json.Unmarshal(data, &m); err != nil {
		p.t.Fatalf("%s: %v", data, err)
	}
	return m
}

// until reads until a message of a type comes.
func (p *peer) until(typ string) obj {
	p.t.Helper()
	for {
		if m := p.next(); m["type"] == typ {
			return m
		}
	}
}

func (w *world) socketNode(id string) *peer {
	w.t.Helper()
	n := w.connect("/ws/node")
	n.say(obj{"type": "node_register", "node_id": id, "semantic_langs": []string{"en", "es"}, "tts_langs": []string{"en", "es"}, "max_concurrent_jobs": 2, "active": []obj{}})
	if ack := n.next(); ack["type"] != "node_register_ack" || ack["status"] != "registered" {
		w.t.Fatalf("registered: %v", ack)
	}
	return n
}

// TestAnUtteranceThereAndBack: audio in, a job on a node, its result.
func TestAnUtteranceThereAndBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.socketNode("n1")
	s := w.connect("/ws/session")
	s.say(obj{"type": "session_start", "langs": []string{"en", "es"}, "partials": true})
	if m := s.next(); m["type"] != "session_started" {
		t.Fatalf("%v", m)
	}
	for turn := range 3 {
		s.sound(make([]byte, 3200))
		loud := make([]byte, 3200)
		for i := range loud {
			loud[i] = byte(i * 7)
		}
		s.sound(loud)
		s.say(obj{"type": "audio_chunk", "is_final": true})
		c := s.until("utterance_committed")
		a := n.until("job_assign")
		if a["job_id"] != c["job_id"] {
			t.Fatalf("assigned %v, committed %v", a, c)
		}
		n.say(obj{"type": "job_ack", "job_id": a["job_id"], "attempt_id": 1})
		if m := n.until("binary"); len(m["data"].([]byte)) < 6400 {
			t.Fatalf("audio: %d", len(m["data"].([]byte)))
		}
		n.say(obj{"type": "job_partial", "job_id": a["job_id"], "attempt_id": 1, "rev": 1, "text_src": "hel"})
		if m := s.until("partial"); m["text_src"] != "hel" {
			t.Errorf("%v", m)
		}
		n.say(obj{"type": "job_result", "job_id": a["job_id"], "attempt_id": 1, "result": obj{"text_src": "hello", "text_tgt": "hola"}})
		if m := n.until("job_result_ack"); m["accepted"] != true {
			t.Errorf("%v", m)
		}
		if m := s.until("result"); m["text_tgt"] != "hola" || m["seq"] != float64(turn+1) || m["utterance_index"] != float64(turn) {
			t.Errorf("%v", m)
		}
	}
	s.say(obj{"type": "session_end"})
	m := s.until("session_ended")
	if fmt.Sprint(m["utterances"], m["results"], m["errors"], m["audio_ms"]) != "3 3 0 600" {
		t.Errorf("%v", m)
	}
	if _, _, err := s.ws.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("the end: %v", err)
	}
	if held := w.s.Audio.Held(); held != 0 {
		t.Errorf("%d bytes of audio are still held", held)
	}
}

// TestForeignSpeech is not passed on: only the node whose result was taken may speak it.
func TestForeignSpeech(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.socketNode("n1")
	s := w.connect("/ws/session")
	s.say(obj{"type": "session_start", "langs": []string{"en", "es"}, "tts": true})
	s.until("session_started")
	s.sound(bytes.Repeat([]byte{1, 40}, 1600))
	s.say(obj{"type": "audio_chunk", "is_final": true})
	job := n.until("job_assign")["job_id"].(string)
	other := w.socketNode("n2")
	speech := func(from *peer, text string) {
		t.Helper()
		h := wire.BinaryHeader{Kind: wire.KindTTS, ActiveJob: wire.ActiveJob{JobID: job, AttemptID: 1}, Last: true}
		frame, err := wire.AppendBinary(nil, &h, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		from.sound(frame)
	}
	refused := func(from *peer) {
		t.Helper()
		if m := from.until("error"); m["error"] != string(wire.NotHolder) {
			t.Errorf("%v", m)
		}
	}
	speech(n, "before the result")
	refused(n)
	n.say(obj{"type": "job_ack", "job_id": job, "attempt_id": 1})
	n.say(obj{"type": "job_result", "job_id": job, "attempt_id": 1, "result": obj{"text_tgt": "hola"}, "tts": true})
	n.until("job_result_ack")
	speech(other, "of another node")
	refused(other)
	speech(n, "its own")
	if _, got, err := wire.ReadBinary(s.until("binary")["data"].([]byte)); err != nil || string(got) != "its own" {
		t.Errorf("%q, %v", got, err)
	}
	speech(n, "after its end")
	refused(n)
}

// TestAForgottenNodeIsRegisteredAgain by the scheduler itself, as it has declared itself by now, with what it has in hand.
func TestAForgottenNodeIsRegisteredAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.socketNode("n1")
	before := w.status("n1")
	n.say(obj{"type": "node_heartbeat", "hb_seq": 1, "active": []obj{}, "max_concurrent_jobs": 7, "semantic_langs": []string{"es", "en", "de"}})
	w.eventually("the change is known", func() bool { return w.status("n1").MaxConcurrentJobs == 7 })
	if err := w.s.Store.Remove(t.Context(), store.RemoveParams{Node: "n1"}); err != nil {
		t.Fatal(err)
	}
	n.say(obj{"type": "node_heartbeat", "hb_seq": 2, "active": []obj{}})
	ack := n.until("node_register_ack")
	after := w.status("n1")
	if ack["epoch"] != float64(after.Epoch) || after.Epoch <= before.Epoch {
		t.Errorf("%v; %d before, %d now", ack, before.Epoch, after.Epoch)
	}
	if after.MaxConcurrentJobs != 7 || strings.Join(after.SemanticLangs, " ") != "de en es" {
		t.Errorf("%+v", after)
	}
}
