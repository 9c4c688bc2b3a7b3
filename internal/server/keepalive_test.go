package server_test

import "testing"

// TestKeepalivesOnRequest: a connection whose first message asks for keepalives gets them. They are of that connection: a resume asks
// again.
func TestKeepalivesOnRequest(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	node := object{"type": "node_register", "node_id": "n1", "semantic_langs": []string{"en"}, "max_concurrent_jobs": 1, "active": []object{}}
	start := object{"type": "session_start", "session_id": "room-1", "resume_token": "a token of my own", "langs": []string{"en", "es"}}
	resume := object{"type": "session_resume", "session_id": "room-1", "resume_token": "a token of my own", "last_seq": 0}
	asks := object{"keepalive_ms": 1500}
	for _, c := range []struct {
		path   string
		first  object
		answer string
	}{
		{"/ws/node", node.with(asks), "node_register_ack"}, {"/ws/session", start.with(asks), "session_started"},
		{"/ws/session", resume, "session_resumed"}, {"/ws/session", resume.with(asks), "session_resumed"},
	} {
		conn := ts.connect(c.path)
		conn.send(c.first)
		if answer := conn.read(); answer["type"] != c.answer || (answer["keepalive_ms"] == 1500.0) != (c.first["keepalive_ms"] == 1500) {
			t.Fatalf("%v is answered with %v", c.first, answer)
		}
		if c.first["keepalive_ms"] == nil {
			continue
		}
		if m := conn.read(); m["type"] != "keepalive" {
			t.Errorf("%s: %v", c.answer, m)
		}
	}
	for _, ms := range []int{1499, 60_001, -1} {
		for path, first := range map[string]object{"/ws/node": node, "/ws/session": start} {
			conn := ts.connect(path)
			conn.send(first.with(object{"keepalive_ms": ms}))
			if m := conn.read(); m["error"] != "INVALID_REQUEST" || m["field"] != "keepalive_ms" {
				t.Errorf("%d ms: %v", ms, m)
			}
		}
		conn := ts.connect("/ws/session")
		conn.send(resume.with(object{"keepalive_ms": ms}))
		if m := conn.read(); m["error"] != "INVALID_REQUEST" || m["field"] != "keepalive_ms" {
			t.Errorf("%d ms: %v", ms, m)
		}
	}
}
