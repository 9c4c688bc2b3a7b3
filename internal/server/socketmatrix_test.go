package server_test

import (
	"slices"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

// expectEveryFrame wants a table to have every frame that a side sends.
func expectEveryFrame[V any](t *testing.T, side wirespec.Side, table map[string]V, others ...string) {
	t.Helper()
	for _, f := range wirespec.Frames() {
		name := string(f.Frame.Type())
		if _, listed := table[name]; f.Side == side && !listed && !slices.Contains(others, name) {
			t.Errorf("%s is in no table: nobody says what it may do to the objects of others", name)
		}
	}
}

// answersUntilError sends a message that is answered with an error of a field, and returns the answers before that one: those to the
// messages that were sent earlier.
func (c *wsClient) answersUntilError(message object, field string) []object {
	c.t.Helper()
	c.send(message)
	var answers []object
	for m := c.read(); m["type"] != "error" || m["field"] != field; m = c.read() {
		answers = append(answers, m)
	}
	return answers
}

// nodeMessages are the messages of a connected node, about a job.
func nodeMessages(job string) map[string]object {
	about := object{"job_id": job, "attempt_id": 1}
	return map[string]object{
		"node_heartbeat":      {"active": []object{about}},
		"job_ack":             about,
		"job_reject":          about.with(object{"reason": "NODE_BUSY"}),
		"job_partial":         about.with(object{"rev": 9, "text_src": "forged"}),
		"job_result":          about.with(object{"result": object{"text_tgt": "forged"}, "tts": true}),
		"job_fail":            about.with(object{"reason": "FORGED"}),
		"job_cancelled":       about,
		"model_not_available": about.with(object{"service_id": "forged"}),
	}
}

// TestNodeMessagesAboutJobsOfOthers: a node with any key sends every message about a job of another node. Nothing happens to the job,
// and its own node goes on with the same messages.
func TestNodeMessagesAboutJobsOfOthers(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	victim := ts.connectNodeAs(keySecret("node-acme"), "acme-1")
	s := ts.startSessionAs(ts.mint(keySecret("minter-acme"), "room-1"), object{"partials": true})
	s.sendUtterance()
	job := victim.readUntil("job_assign")["job_id"].(string)
	victim.send(object{"type": "job_ack", "job_id": job, "attempt_id": 1})
	ts.eventually("acknowledge the job", func() bool {
		var now wire.Job
		ts.requestAs(keySecret("operator"), "GET", "/v1/jobs/"+job, nil).decode(&now)
		return now.State == "ACKED"
	})
	messages := nodeMessages(job)
	expectEveryFrame(t, wirespec.FromNode, messages, "node_register", "node_leave") // see below

	refusals := map[string]wire.Code{"node-acme": wire.NameInUse, "operator": wire.NameInUse, "node-shared": wire.Forbidden, "node-beta": wire.Forbidden}
	for key, id := range map[string]string{"node-acme": "acme-2", "node-beta": "beta-1", "node-shared": "gpu-1", "operator": "any-1"} {
		n := ts.connectNodeAs(keySecret(key), id)
		for typ, body := range messages {
			n.send(body.with(object{"type": typ}))
			for _, m := range n.answersUntilError(object{"type": "model_not_available", "service_id": ""}, "service_id") {
				if m["accepted"] == true || m["type"] == "binary" {
					t.Errorf("%s of %s about another node's job: %v", typ, key, m)
				}
			}
		}
		frame, err := wire.AppendBinary(nil, &wire.BinaryHeader{Kind: wire.KindTTS, ActiveJob: wire.ActiveJob{JobID: job, AttemptID: 1}, Last: true}, []byte("forged"))
		if err != nil {
			t.Fatal(err)
		}
		n.sendBinary(frame)
		if m := n.readUntil("error"); m["error"] != string(wire.NotHolder) {
			t.Errorf("speech of %s: %v", key, m)
		}
		n.send(object{"type": "node_leave"}) // itself, and nobody else
		second := ts.dialAs("/ws/node", keySecret(key), false)
		second.send(minimalDeclaration("acme-1").with(object{"type": "node_register"}))
		second.expectClose(refusals[key], map[wire.Code]wire.CloseCode{wire.NameInUse: wire.CloseNameInUse, wire.Forbidden: wire.CloseForbidden}[refusals[key]])
	}

	var now wire.Job
	ts.requestAs(keySecret("operator"), "GET", "/v1/jobs/"+job, nil).decode(&now)
	if now.NodeID != "acme-1" || now.AttemptID != 1 || now.State != "ACKED" {
		t.Errorf("the job is %+v", now)
	}
	about := object{"job_id": job, "attempt_id": 1}
	victim.send(object{"type": "node_heartbeat", "active": []object{about}})
	victim.send(about.with(object{"type": "job_partial", "rev": 1, "text_src": "own"}))
	if m := s.readUntil("partial"); m["text_src"] != "own" {
		t.Errorf("%v", m)
	}
	victim.send(about.with(object{"type": "job_result", "result": object{"text_tgt": "own"}}))
	if m := victim.readUntil("job_result_ack"); m["accepted"] != true {
		t.Errorf("the result of its own node: %v", m)
	}
	if m := s.readUntil("result"); m["text_tgt"] != "own" {
		t.Errorf("%v", m)
	}
}

// TestSessionMessagesAboutOtherSessions: a client with a token of another session, or of another tenant's session of the same name, sends
// every message about a session. Nothing happens to the session.
func TestSessionMessagesAboutOtherSessions(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	n := ts.connectNodeAs(keySecret("node-acme"), "acme-1")
	const resumeToken = "the resume token of the victim"
	own := ts.mint(keySecret("minter-acme"), "room-1")
	victim := ts.startSessionAs(own, object{"resume_token": resumeToken})
	victim.send(object{"type": "utterance_start", "utterance_id": "u-1"})
	victim.sendUtterance()
	job := n.readUntil("job_assign")["job_id"].(string)
	n.send(object{"type": "job_ack", "job_id": job, "attempt_id": 1})

	messages := map[string]object{
		"utterance_start": {"utterance_id": "u-1"},
		"audio_chunk":     {"utterance_id": "u-1", "is_final": true},
		"audio_gone":      {"utterance_index": 0},
		"result_ack":      {"seq": 0},
		"session_update":  {"token": own},
		"cancel":          {"job_id": job},
		"keepalive":       {},
		"session_end":     {},
	}
	expectEveryFrame(t, wirespec.FromClient, messages, "session_start", "session_resume") // see below
	for name, c := range map[string]struct {
		token            string
		starts, resuming wire.Code // the refusals to start and to resume the session
	}{
		"another session of the tenant":      {ts.mint(keySecret("minter-acme"), "room-2"), wire.Forbidden, wire.Forbidden},
		"a session of another tenant":        {ts.mint(keySecret("minter-beta"), "room-3"), wire.Forbidden, wire.Forbidden},
		"the same session of another tenant": {ts.mint(keySecret("minter-beta"), "room-1"), "", wire.NotFound},
	} {
		resume := ts.dialAs("/ws/session", c.token, false)
		resume.send(object{"type": "session_resume", "session_id": "room-1", "resume_token": resumeToken, "last_seq": 0})
		if m := resume.read(); m["error"] != string(c.resuming) || m["fatal"] != true {
			t.Errorf("%s resumes: %v", name, m)
		}
		if c.starts != "" {
			start := ts.dialAs("/ws/session", c.token, false)
			start.send(object{"type": "session_start", "session_id": "room-1", "langs": []string{"en", "es"}})
			start.expectClose(c.starts, wire.CloseForbidden)
		}
		other := ts.startSessionAs(c.token, nil)
		for typ, body := range messages {
			if typ == "session_end" {
				continue // the last
			}
			other.send(body.with(object{"type": typ}))
			for _, m := range other.answersUntilError(object{"type": "session_update", "src_lang": "no language"}, "src_lang") {
				if m["job_id"] == job || m["utterance_id"] == "u-1" {
					t.Errorf("%s of %s: %v", typ, name, m)
				}
			}
		}
		other.send(object{"type": "session_end"})
		other.readUntil("session_ended")
	}

	guess := ts.dialAs("/ws/session", own, false)
	guess.send(object{"type": "session_resume", "session_id": "room-1", "resume_token": "a guess of the resume token", "last_seq": 0})
	if m := guess.read(); m["type"] != "error" || m["fatal"] != true {
		t.Errorf("its own token with a guessed resume_token: %v", m)
	}
	n.send(object{"type": "job_result", "job_id": job, "attempt_id": 1, "result": object{"text_tgt": "own"}})
	if m := n.readUntil("job_result_ack"); m["accepted"] != true {
		t.Errorf("%v", m)
	}
	if m := victim.readUntil("result"); m["text_tgt"] != "own" || m["job_id"] != job {
		t.Errorf("%v", m)
	}
	victim.send(object{"type": "session_end"})
	if m := victim.readUntil("session_ended"); m["utterances"] != float64(1) || m["results"] != float64(1) {
		t.Errorf("%v", m)
	}
}
