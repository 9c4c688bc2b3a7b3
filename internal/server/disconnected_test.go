package server_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// graceful gives lost nodes longer than any test takes, and utterances half a second.
func graceful(c *config.Config) {
	c.Scheduler.Sessions.DisconnectGraceMS, c.Scheduler.Sessions.WaitMS = 60_000, 500
}

// cut breaks a node's connection without a word and waits until it is noticed.
func (w *world) cut(n *peer, id string) {
	w.t.Helper()
	_ = n.ws.CloseNow()
	w.eventually("the lost connection is noticed", func() bool { return w.status(id).Disconnected })
}

// resume connects a node again in the epoch it was in.
func (w *world) resume(id string, token any, active []obj) *peer {
	w.t.Helper()
	n := w.connect("/ws/node")
	n.say(obj{
		"type": "node_register", "node_id": id, "resume_token": token, "active": active,
		"semantic_langs": []string{"en", "es"}, "tts_langs": []string{"en", "es"}, "max_concurrent_jobs": 2,
	})
	if ack := n.next(); ack["type"] != "node_register_ack" || ack["status"] != "resumed" {
		w.t.Fatalf("resumed: %v", ack)
	}
	return n
}

// registered is a node over a socket and the token by which it comes back.
func (w *world) registered(id string) (*peer, any) {
	w.t.Helper()
	n := w.connect("/ws/node")
	n.say(obj{"type": "node_register", "node_id": id, "semantic_langs": []string{"en", "es"}, "tts_langs": []string{"en", "es"}, "max_concurrent_jobs": 2, "active": []obj{}})
	return n, n.until("node_register_ack")["resume_token"]
}

// TestDisconnectedNodeIsNoCandidate: while its connection is lost a node gets nothing, whoever asks is told why at once,
// and as soon as it is back it gets work again.
func TestDisconnectedNodeIsNoCandidate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, graceful)
	spanish := utterance(obj{"tgt_lang": "es"})
	n, token := w.registered("n1")
	for range 2 {
		w.cut(n, "n1")
		if s := w.status("n1"); !s.Online || s.Health != "ready" {
			t.Errorf("a node that may come back is not known to be gone, and is as healthy as it said: %+v", s)
		}
		e := w.post("/v1/dispatch/f2f", spanish).refused(wire.AllCandidatesFullOrFailed)
		if diff := cmp.Diff(map[string]int{"DISCONNECTED": 1}, e.Reasons); diff != "" {
			t.Errorf("dispatch (-want +got)\n%s", diff)
		}
		var x wire.ExplainResponse
		w.post("/v1/dispatch/explain", spanish).into(&x)
		if diff := cmp.Diff(map[string]int{"DISCONNECTED": 1}, x.Reasons); diff != "" || x.Verdict != string(wire.AllCandidatesFullOrFailed) {
			t.Errorf("explain says %s (-want +got)\n%s", x.Verdict, diff)
		}
		n = w.resume("n1", token, []obj{})
		if s := w.status("n1"); !s.Online || s.Disconnected {
			t.Errorf("it is back: %+v", s)
		}
		p := w.placed(spanish)
		if a := n.until("job_assign"); a["job_id"] != p.JobID {
			t.Errorf("assigned %v, placed %+v", a, p)
		}
		n.say(obj{"type": "job_ack", "job_id": p.JobID, "attempt_id": 1})
		n.say(obj{"type": "job_result", "job_id": p.JobID, "attempt_id": 1, "result": obj{"text_tgt": "hola"}})
		n.until("job_result_ack")
	}
}

// TestUtteranceForDisconnectedNode ends within the time an utterance waits for a node, with the reasons.
func TestUtteranceForDisconnectedNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, graceful)
	n := w.socketNode("n1")
	s := w.connect("/ws/session")
	s.say(obj{"type": "session_start", "langs": []string{"en", "es"}})
	s.until("session_started")
	w.cut(n, "n1")
	began := time.Now()
	s.sound(bytes.Repeat([]byte{1, 40}, 1600))
	s.say(obj{"type": "audio_chunk", "is_final": true})
	m := s.until("error")
	if m["error"] != string(wire.AllCandidatesFullOrFailed) || !cmp.Equal(m["reasons"], any(map[string]any{"DISCONNECTED": 1.0})) {
		t.Errorf("%v", m)
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("it was told after %s; an utterance waits 500 ms", took)
	}
}

// TestDisconnectedNodeKeepsItsJobs for as long as it may come back.
func TestDisconnectedNodeKeepsItsJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, graceful)
	n, token := w.registered("n1")
	p := w.placed(utterance(obj{"tgt_lang": "es"}))
	n.until("job_assign")
	n.say(obj{"type": "job_ack", "job_id": p.JobID, "attempt_id": 1})
	w.reaches(p.JobID, "ACKED")
	w.cut(n, "n1")
	w.socketNode("n2")
	if j := w.job(p.JobID); j.State != "ACKED" || j.NodeID != "n1" {
		t.Errorf("the job of a node that may come back: %+v", j)
	}
	n = w.resume("n1", token, []obj{{"job_id": p.JobID, "attempt_id": 1}})
	n.say(obj{"type": "job_result", "job_id": p.JobID, "attempt_id": 1, "result": obj{"text_tgt": "hola"}})
	if m := n.until("job_result_ack"); m["accepted"] != true {
		t.Errorf("%v", m)
	}
	history(t, w.job(p.JobID), wire.Attempt{AttemptID: 1, NodeID: "n1"})
}

// TestNodeMovesFromSocketToCallback: a node whose connection is lost and that is reached by callback_url from then on is
// not waited for.
func TestNodeMovesFromSocketToCallback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, graceful)
	n := w.socketNode("n1")
	w.cut(n, "n1")
	http := w.stranger("n1")
	http.beat(obj{"callback_url": http.srv.URL, "active": []obj{}, "semantic_langs": []string{"en", "zh"}})
	if s := w.status("n1"); s.Disconnected || !s.Online {
		t.Errorf("it is reached by its callback_url: %+v", s)
	}
	w.begin(utterance(nil))
}
