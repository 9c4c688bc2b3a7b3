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

// wsClient is the client of a WebSocket, which sends and reads single messages.
type wsClient struct {
	t    testing.TB
	ws   *websocket.Conn
	path string
}

func (ts *testScheduler) connect(path string) *wsClient {
	ts.t.Helper()
	return ts.dialAs(path, "", false)
}

func (c *wsClient) send(body object) {
	c.t.Helper()
	if err := c.ws.Write(c.t.Context(), websocket.MessageText, encode(c.t, body)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *wsClient) sendBinary(data []byte) {
	c.t.Helper()
	if err := c.ws.Write(c.t.Context(), websocket.MessageBinary, data); err != nil {
		c.t.Fatal(err)
	}
}

// read reads one message: an object, or a binary frame of type "binary".
func (c *wsClient) read() object {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), testTimeout)
	defer cancel()
	typ, data, err := c.ws.Read(ctx)
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	if typ == websocket.MessageBinary {
		return object{"type": "binary", "data": data}
	}
	checkMessage(c.t, c.path, sent, data)
	var m object
	if err := json.Unmarshal(data, &m); err != nil {
		c.t.Fatalf("%s: %v", data, err)
	}
	return m
}

// readUntil reads until a message of a type comes.
func (c *wsClient) readUntil(typ string) object {
	c.t.Helper()
	for {
		if m := c.read(); m["type"] == typ {
			return m
		}
	}
}

// connectNode connects and registers a node.
func (ts *testScheduler) connectNode(id string) *wsClient {
	ts.t.Helper()
	n := ts.connect("/ws/node")
	n.send(object{"type": "node_register", "node_id": id, "semantic_langs": []string{"en", "es"}, "tts_langs": []string{"en", "es"}, "max_concurrent_jobs": 2, "active": []object{}})
	if ack := n.read(); ack["type"] != "node_register_ack" || ack["status"] != "registered" {
		ts.t.Fatalf("registered: %v", ack)
	}
	return n
}

// TestUtteranceRoundTrip: audio of a session, a job on a node, and its result back to the session.
func TestUtteranceRoundTrip(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.connectNode("n1")
	s := ts.connect("/ws/session")
	s.send(object{"type": "session_start", "langs": []string{"en", "es"}, "partials": true})
	if m := s.read(); m["type"] != "session_started" {
		t.Fatalf("%v", m)
	}
	for turn := range 3 {
		s.sendBinary(make([]byte, 3200))
		loud := make([]byte, 3200)
		for i := range loud {
			loud[i] = byte(i * 7)
		}
		s.sendBinary(loud)
		s.send(object{"type": "audio_chunk", "is_final": true})
		c := s.readUntil("utterance_committed")
		a := n.readUntil("job_assign")
		if a["job_id"] != c["job_id"] {
			t.Fatalf("assigned %v, committed %v", a, c)
		}
		n.send(object{"type": "job_ack", "job_id": a["job_id"], "attempt_id": 1})
		if m := n.readUntil("binary"); len(m["data"].([]byte)) < 6400 {
			t.Fatalf("audio: %d", len(m["data"].([]byte)))
		}
		for field, value := range map[string]any{"rev": 0, "stage": "dreaming"} {
			invalid := object{"type": "job_partial", "job_id": a["job_id"], "attempt_id": 1, "rev": 9, "text_src": "bad"}
			invalid[field] = value
			n.send(invalid)
			if e := n.readUntil("error"); e["error"] != "INVALID_REQUEST" || e["field"] != field || e["reply_to"] != "job_partial" {
				t.Errorf("a partial result with %s %v: %v", field, value, e)
			}
		}
		n.send(object{"type": "job_partial", "job_id": a["job_id"], "attempt_id": 1, "rev": 1, "stage": "asr", "text_src": "hel"})
		if m := s.readUntil("partial"); m["text_src"] != "hel" {
			t.Errorf("%v", m)
		}
		n.send(object{"type": "job_result", "job_id": a["job_id"], "attempt_id": 1, "result": object{"text_src": "hello", "text_tgt": "hola"}})
		if m := n.readUntil("job_result_ack"); m["accepted"] != true {
			t.Errorf("%v", m)
		}
		if m := s.readUntil("result"); m["text_tgt"] != "hola" || m["seq"] != float64(turn+1) || m["utterance_index"] != float64(turn) {
			t.Errorf("%v", m)
		}
	}
	s.send(object{"type": "session_end"})
	m := s.readUntil("session_ended")
	if fmt.Sprint(m["utterances"], m["results"], m["errors"], m["audio_ms"]) != "3 3 0 600" {
		t.Errorf("%v", m)
	}
	if _, _, err := s.ws.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("the end: %v", err)
	}
	if held := ts.scheduler.Audio.Held(); held != 0 {
		t.Errorf("%d bytes of audio are still held", held)
	}
}

// TestSpeechOfOtherNodeIsRefused: only the node whose result was accepted may send its speech.
func TestSpeechOfOtherNodeIsRefused(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.connectNode("n1")
	s := ts.connect("/ws/session")
	s.send(object{"type": "session_start", "langs": []string{"en", "es"}, "tts": true})
	s.readUntil("session_started")
	s.sendBinary(bytes.Repeat([]byte{1, 40}, 1600))
	s.send(object{"type": "audio_chunk", "is_final": true})
	job := n.readUntil("job_assign")["job_id"].(string)
	other := ts.connectNode("n2")
	speech := func(from *wsClient, text string) {
		t.Helper()
		h := wire.BinaryHeader{Kind: wire.KindTTS, ActiveJob: wire.ActiveJob{JobID: job, AttemptID: 1}, Last: true}
		frame, err := wire.AppendBinary(nil, &h, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		from.sendBinary(frame)
	}
	refused := func(from *wsClient) {
		t.Helper()
		if m := from.readUntil("error"); m["error"] != string(wire.NotHolder) {
			t.Errorf("%v", m)
		}
	}
	speech(n, "before the result")
	refused(n)
	n.send(object{"type": "job_ack", "job_id": job, "attempt_id": 1})
	n.send(object{"type": "job_result", "job_id": job, "attempt_id": 1, "result": object{"text_tgt": "hola"}, "tts": true})
	n.readUntil("job_result_ack")
	speech(other, "of another node")
	refused(other)
	speech(n, "accepted")
	if _, got, err := wire.ReadBinary(s.readUntil("binary")["data"].([]byte)); err != nil || string(got) != "accepted" {
		t.Errorf("%q, %v", got, err)
	}
	speech(n, "after its end")
	refused(n)
}

// TestRemovedNodeIsReadmitted: a connected node that the store has lost is registered again by its next heartbeat, with its current
// declaration.
func TestRemovedNodeIsReadmitted(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.connectNode("n1")
	before := ts.getNode("n1")
	n.send(object{"type": "node_heartbeat", "hb_seq": 1, "active": []object{}, "max_concurrent_jobs": 7, "semantic_langs": []string{"es", "en", "de"}})
	ts.eventually("the change is known", func() bool { return ts.getNode("n1").MaxConcurrentJobs == 7 })
	if _, err := ts.scheduler.Store.Remove(t.Context(), store.RemoveParams{Node: "n1"}); err != nil {
		t.Fatal(err)
	}
	n.send(object{"type": "node_heartbeat", "hb_seq": 2, "active": []object{}})
	ack := n.readUntil("node_register_ack")
	after := ts.getNode("n1")
	if ack["epoch"] != float64(after.Epoch) || after.Epoch <= before.Epoch {
		t.Errorf("%v; %d before, %d now", ack, before.Epoch, after.Epoch)
	}
	if after.MaxConcurrentJobs != 7 || strings.Join(after.SemanticLangs, " ") != "de en es" {
		t.Errorf("%+v", after)
	}
}

// TestReadmittedNodeKeepsDeclaration: a node that the store has lost is registered with everything that it has declared over its
// connection, also when its next heartbeat would be enough for a registration.
func TestReadmittedNodeKeepsDeclaration(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.connect("/ws/node")
	n.send(object{
		"type": "node_register", "node_id": "n1", "semantic_langs": []string{"en", "zh"}, "tts_langs": []string{"en", "zh"},
		"max_concurrent_jobs": 2, "active": []object{}, "tenant_id": "acme", "region": "eu", "installed_models": []string{"m1"},
	})
	first := n.readUntil("node_register_ack")
	if _, err := ts.scheduler.Store.Remove(t.Context(), store.RemoveParams{Node: "n1"}); err != nil {
		t.Fatal(err)
	}
	n.send(object{
		"type": "node_heartbeat", "hb_seq": 1, "active": []object{}, "health": "ready", "max_concurrent_jobs": 7,
		"semantic_langs": []string{"en", "zh", "de"},
	})
	again := n.readUntil("node_register_ack")
	got := ts.getNode("n1")
	if again["epoch"] != float64(got.Epoch) || again["epoch"] == first["epoch"] || again["resume_token"] == first["resume_token"] {
		t.Errorf("acknowledged %v, before %v; the store has epoch %d", again, first, got.Epoch)
	}
	if got.Incarnation == "" || got.TenantID != "acme" || got.Region != "eu" || len(got.InstalledModels) != 1 ||
		got.MaxConcurrentJobs != 7 || len(got.SemanticLangs) != 3 || len(got.TTSLangs) != 2 {
		t.Errorf("the node is registered as %+v", got)
	}
	// The node continues in the new epoch, and gets a job.
	n.send(object{"type": "node_heartbeat", "hb_seq": 2, "epoch": again["epoch"], "active": []object{}, "max_concurrent_jobs": 8})
	ts.eventually("the next heartbeat is applied", func() bool { return ts.getNode("n1").MaxConcurrentJobs == 8 })
	p := ts.dispatch(dispatchBody(object{"tenant_id": "acme"}))
	if a := n.readUntil("job_assign"); a["job_id"] != p.JobID {
		t.Errorf("assigned %v, dispatched %+v", a, p)
	}
}
