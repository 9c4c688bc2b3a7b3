package server_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// longGrace sets a grace period longer than any test, and a wait of utterances of half a second.
func longGrace(c *config.Config) {
	c.Scheduler.Sessions.DisconnectGraceMS, c.Scheduler.Sessions.WaitMS = 60_000, 500
}

// disconnectNode closes a node's connection without a close frame, and waits until the scheduler has noticed.
func (ts *testScheduler) disconnectNode(n *wsClient, id string) {
	ts.t.Helper()
	_ = n.ws.CloseNow()
	ts.eventually("the lost connection is noticed", func() bool {
		known := ts.scheduler.Fleet.Node(core.NodeID(id)) // the fleet follows the store
		return ts.getNode(id).Disconnected && known != nil && known.Declared().Disconnected
	})
}

// resumeNode reconnects a node and resumes its epoch.
func (ts *testScheduler) resumeNode(id string, token any, active []object) *wsClient {
	ts.t.Helper()
	n := ts.connect("/ws/node")
	n.send(object{
		"type": "node_register", "node_id": id, "resume_token": token, "active": active,
		"semantic_langs": []string{"en", "es"}, "tts_langs": []string{"en", "es"}, "max_concurrent_jobs": 2,
	})
	if ack := n.read(); ack["type"] != "node_register_ack" || ack["status"] != "resumed" {
		ts.t.Fatalf("resumed: %v", ack)
	}
	return n
}

// connectNodeWithToken connects a node and returns its resume token.
func (ts *testScheduler) connectNodeWithToken(id string) (*wsClient, any) {
	ts.t.Helper()
	n := ts.connect("/ws/node")
	n.send(object{"type": "node_register", "node_id": id, "semantic_langs": []string{"en", "es"}, "tts_langs": []string{"en", "es"}, "max_concurrent_jobs": 2, "active": []object{}})
	return n, n.readUntil("node_register_ack")["resume_token"]
}

// TestDisconnectedNodeIsNoCandidate: a disconnected node gets no jobs, with the reason DISCONNECTED, until it has reconnected.
func TestDisconnectedNodeIsNoCandidate(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, longGrace)
	spanish := dispatchBody(object{"tgt_lang": "es"})
	n, token := ts.connectNodeWithToken("n1")
	for range 2 {
		ts.disconnectNode(n, "n1")
		if s := ts.getNode("n1"); !s.Online || s.Health != "ready" {
			t.Errorf("a disconnected node in its grace period must be online and ready: %+v", s)
		}
		e := ts.post("/v1/dispatch/f2f", spanish).expectError(wire.AllCandidatesFullOrFailed)
		if diff := cmp.Diff(map[string]int{"DISCONNECTED": 1}, e.Reasons); diff != "" {
			t.Errorf("dispatch (-want +got)\n%s", diff)
		}
		var x wire.ExplainResponse
		ts.post("/v1/dispatch/explain", spanish).decode(&x)
		if diff := cmp.Diff(map[string]int{"DISCONNECTED": 1}, x.Reasons); diff != "" || x.Verdict != string(wire.AllCandidatesFullOrFailed) {
			t.Errorf("explain answers %s (-want +got)\n%s", x.Verdict, diff)
		}
		n = ts.resumeNode("n1", token, []object{})
		if s := ts.getNode("n1"); !s.Online || s.Disconnected {
			t.Errorf("the node has reconnected: %+v", s)
		}
		p := ts.dispatch(spanish)
		if a := n.readUntil("job_assign"); a["job_id"] != p.JobID {
			t.Errorf("assigned %v, dispatched %+v", a, p)
		}
		n.send(object{"type": "job_ack", "job_id": p.JobID, "attempt_id": 1})
		n.send(object{"type": "job_result", "job_id": p.JobID, "attempt_id": 1, "result": object{"text_tgt": "hola"}})
		n.readUntil("job_result_ack")
	}
}

// TestUtteranceFailsWhileNodeIsDisconnected: an utterance fails after its wait for a node, with the reasons.
func TestUtteranceFailsWhileNodeIsDisconnected(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, longGrace)
	n := ts.connectNode("n1")
	s := ts.connect("/ws/session")
	s.send(object{"type": "session_start", "langs": []string{"en", "es"}})
	s.readUntil("session_started")
	ts.disconnectNode(n, "n1")
	began := time.Now()
	s.sendBinary(bytes.Repeat([]byte{1, 40}, 1600))
	s.send(object{"type": "audio_chunk", "is_final": true})
	m := s.readUntil("error")
	if m["error"] != string(wire.AllCandidatesFullOrFailed) || !cmp.Equal(m["reasons"], any(map[string]any{"DISCONNECTED": 1.0})) {
		t.Errorf("%v", m)
	}
	if took := time.Since(began); took > testTimeout/2 {
		t.Errorf("the error came after %s; an utterance waits 500 ms", took)
	}
}

// TestDisconnectedNodeKeepsItsJobs: a disconnected node keeps its jobs during the grace period if no other node can take them.
func TestDisconnectedNodeKeepsItsJobs(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, longGrace)
	n, token := ts.connectNodeWithToken("n1")
	p := ts.dispatch(dispatchBody(object{"tgt_lang": "es"}))
	n.readUntil("job_assign")
	n.send(object{"type": "job_ack", "job_id": p.JobID, "attempt_id": 1})
	ts.awaitJobState(p.JobID, "ACKED")
	ts.disconnectNode(n, "n1")
	if j := ts.getJob(p.JobID); j.State != "ACKED" || j.NodeID != "n1" {
		t.Errorf("the job of a disconnected node: %+v", j)
	}
	n = ts.resumeNode("n1", token, []object{{"job_id": p.JobID, "attempt_id": 1}})
	n.send(object{"type": "job_result", "job_id": p.JobID, "attempt_id": 1, "result": object{"text_tgt": "hola"}})
	if m := n.readUntil("job_result_ack"); m["accepted"] != true {
		t.Errorf("%v", m)
	}
	expectAttempts(t, ts.getJob(p.JobID), wire.Attempt{AttemptID: 1, NodeID: "n1"})
}

// TestJobLeavesDisconnectedNode: during the grace period a job moves to another node as soon as there is one. The node that lost it is told to
// stop when it comes back, and its result is not accepted.
func TestJobLeavesDisconnectedNode(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, longGrace)
	n1, token := ts.connectNodeWithToken("n1")
	p := ts.dispatch(dispatchBody(object{"tgt_lang": "es"}))
	n1.readUntil("job_assign")
	n1.send(object{"type": "job_ack", "job_id": p.JobID, "attempt_id": 1})
	ts.awaitJobState(p.JobID, "ACKED")
	ts.disconnectNode(n1, "n1")
	n2 := ts.connectNode("n2")
	if a := n2.readUntil("job_assign"); a["job_id"] != p.JobID || a["attempt_id"] != 2.0 {
		t.Fatalf("assigned %v", a)
	}
	n1 = ts.connect("/ws/node")
	n1.send(object{
		"type": "node_register", "node_id": "n1", "resume_token": token, "active": []object{{"job_id": p.JobID, "attempt_id": 1}},
		"semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 2,
	})
	want := []any{map[string]any{"job_id": p.JobID, "attempt_id": 1.0}}
	if ack := n1.readUntil("node_register_ack"); !cmp.Equal(ack["cancel"], any(want)) {
		t.Errorf("it is told to cancel %v, want %v", ack["cancel"], want)
	}
	n1.send(object{"type": "job_result", "job_id": p.JobID, "attempt_id": 1, "result": object{"text_tgt": "late"}})
	if m := n1.readUntil("job_result_ack"); m["accepted"] != false || m["error"] != string(wire.StaleAttempt) {
		t.Errorf("%v", m)
	}
	n2.send(object{"type": "job_ack", "job_id": p.JobID, "attempt_id": 2})
	n2.send(object{"type": "job_result", "job_id": p.JobID, "attempt_id": 2, "result": object{"text_tgt": "hola"}})
	if m := n2.readUntil("job_result_ack"); m["accepted"] != true {
		t.Errorf("%v", m)
	}
	expectAttempts(t, ts.getJob(p.JobID), wire.Attempt{AttemptID: 1, NodeID: "n1", Reason: "DISCONNECTED"}, wire.Attempt{AttemptID: 2, NodeID: "n2"})
}

// TestNodeMovesFromSocketToCallback: a disconnected node that sends a heartbeat with callback_url gets jobs there.
func TestNodeMovesFromSocketToCallback(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, longGrace)
	n := ts.connectNode("n1")
	ts.disconnectNode(n, "n1")
	http := ts.newNode("n1")
	http.heartbeat(object{"callback_url": http.srv.URL, "active": []object{}, "semantic_langs": []string{"en", "zh"}})
	if s := ts.getNode("n1"); s.Disconnected || !s.Online {
		t.Errorf("the node has a callback_url: %+v", s)
	}
	ts.dispatchAndReceive(dispatchBody(nil))
}

// readChunk reads the next chunk of a job's audio, or of speech.
func (c *wsClient) readChunk() (wire.BinaryHeader, []byte) {
	c.t.Helper()
	h, data, err := wire.ReadBinary(c.readUntil("binary")["data"].([]byte))
	if err != nil {
		c.t.Fatal(err)
	}
	return h, data
}

// TestAudioIsResentAfterReconnect: the audio continues at the first chunk that the node does not report, with the same numbers and
// bytes.
func TestAudioIsResentAfterReconnect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reported any // nil: absent
		from     int
		restart  bool // the node registers again instead of resuming
	}{
		"absent":                 {nil, 0, false},
		"none":                   {0, 0, false},
		"the first":              {1, 1, false},
		"all but the last":       {2, 2, false},
		"all":                    {3, 3, false},
		"more than there are":    {1 << 40, 3, false},
		"after a restart":        {1, 1, true},
		"absent after a restart": {nil, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ts := startScheduler(t, longGrace)
			n, token := ts.connectNodeWithToken("n1")
			audio := make([]byte, 2*wire.MaxChunk+5000)
			for i := range audio {
				audio[i] = byte(i ^ i>>8 ^ 40)
			}
			job := dispatchAudio(ts, audio)
			if a := n.readUntil("job_assign"); a["job_id"] != job {
				t.Fatalf("%v", a)
			}
			n.send(object{"type": "job_ack", "job_id": job, "attempt_id": 1})
			if h, data := n.readChunk(); h.Chunk != 0 || h.Last || !bytes.Equal(data, audio[:len(data)]) {
				t.Fatalf("%+v with %d bytes", h, len(data))
			}
			ts.awaitJobState(job, "ACKED")
			ts.disconnectNode(n, "n1")

			again := object{"job_id": job, "attempt_id": 1}.with(object{"audio_chunks": c.reported})
			if c.restart {
				n = ts.connect("/ws/node")
				n.send(object{"type": "node_register", "node_id": "n1", "active": []object{again}, "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 2})
				n.readUntil("node_register_ack")
			} else {
				n = ts.resumeNode("n1", token, []object{again})
			}
			n.send(object{"type": "job_ack", "job_id": job, "attempt_id": 1})
			n.send(object{"type": "job_result", "job_id": "unknown", "attempt_id": 1, "result": object{}}) // its answer marks the end if no audio comes
			for next := c.from; next < 3; next++ {
				h, data := n.readChunk()
				want := audio[next*wire.MaxChunk : min((next+1)*wire.MaxChunk, len(audio))]
				if h.JobID != job || h.AttemptID != 1 || h.Chunk != next || h.Last != (next == 2) || !bytes.Equal(data, want) {
					t.Fatalf("%+v with %d bytes, want chunk %d with %d", h, len(data), next, len(want))
				}
			}
			n.send(object{"type": "job_result", "job_id": job, "attempt_id": 1, "result": object{"text_tgt": "hola"}})
			for {
				m := n.read()
				if m["type"] == "binary" {
					t.Fatal("more audio was resent than was missing")
				}
				if m["type"] == "job_result_ack" && m["job_id"] == job {
					break
				}
			}
		})
	}
}

// dispatchAudio sends one utterance in a session of its own and returns its job.
func dispatchAudio(ts *testScheduler, audio []byte) string {
	ts.t.Helper()
	s := ts.connect("/ws/session")
	s.send(object{"type": "session_start", "langs": []string{"en", "es"}, "audio": object{"encoding": "pcm_s16le", "sample_rate": 48000, "channels": 2}})
	s.readUntil("session_started")
	for from := 0; from < len(audio); from += 64 << 10 {
		s.sendBinary(audio[from:min(from+64<<10, len(audio))])
	}
	s.send(object{"type": "audio_chunk", "is_final": true})
	return s.readUntil("utterance_committed")["job_id"].(string)
}

// TestRegisterAckListsJobsWithoutAudio: node_register_ack lists the jobs whose audio is not on this instance, without those that
// the node must cancel.
func TestRegisterAckListsJobsWithoutAudio(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, longGrace)
	n, token := ts.connectNodeWithToken("n1")
	here := dispatchAudio(ts, bytes.Repeat([]byte{1, 40}, 10_000))
	n.readUntil("job_assign")
	n.send(object{"type": "job_ack", "job_id": here, "attempt_id": 1})
	ts.awaitJobState(here, "ACKED")
	ts.disconnectNode(n, "n1")
	n = ts.connect("/ws/node")
	n.send(object{
		"type": "node_register", "node_id": "n1", "resume_token": token, "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 2,
		"active": []object{{"job_id": here, "attempt_id": 1}, {"job_id": "j-elsewhere", "attempt_id": 2}},
	})
	ack := n.readUntil("node_register_ack")
	if diff := cmp.Diff([]any{map[string]any{"job_id": "j-elsewhere", "attempt_id": 2.0}}, ack["no_audio"]); diff != "" {
		t.Errorf("no_audio (-want +got):\n%s\nof %v", diff, ack)
	}
}

// TestAudioOfOtherNodesIsNotResent: a node that lists a job that it does not hold gets no audio of it.
func TestAudioOfOtherNodesIsNotResent(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, longGrace)
	n := ts.connectNode("n1")
	job := dispatchAudio(ts, bytes.Repeat([]byte{1, 40}, 10_000))
	n.readUntil("job_assign")
	n.send(object{"type": "job_ack", "job_id": job, "attempt_id": 1})
	ts.awaitJobState(job, "ACKED")
	other := ts.connect("/ws/node")
	other.send(object{
		"type": "node_register", "node_id": "n2", "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 2,
		"active": []object{{"job_id": job, "attempt_id": 1}, {"job_id": job, "attempt_id": 2}},
	})
	other.readUntil("node_register_ack")
	other.send(object{"type": "job_result", "job_id": job, "attempt_id": 1, "result": object{"text_tgt": "hola"}})
	for m := other.read(); m["type"] != "job_result_ack"; m = other.read() {
		if m["type"] == "binary" {
			t.Fatal("a node was sent audio of a job it does not hold")
		}
	}
	bad := ts.connect("/ws/node")
	bad.send(object{
		"type": "node_register", "node_id": "n3", "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 2,
		"active": []object{{"job_id": job, "attempt_id": 1, "audio_chunks": -1}},
	})
	if m := bad.readUntil("error"); m["error"] != string(wire.InvalidRequest) || m["field"] != "active[0].audio_chunks" {
		t.Errorf("%v", m)
	}
}
