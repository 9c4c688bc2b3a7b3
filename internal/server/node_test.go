package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/lingua-scheduler/lingua/wire"
)

// delivery is what a node was handed.
type delivery struct {
	wire.Assignment
	body   []byte
	header http.Header
	query  string
}

// node is a recording node: it takes every job, tells the test, and otherwise does what the test does in
// its name.
type node struct {
	w     *world
	id    string
	epoch int64
	said  obj // what it registered with
	srv   *httptest.Server

	mu     sync.Mutex
	answer http.HandlerFunc // nil: 200
}

// capable is what a node declares that translates between English and Chinese, two jobs at once.
func capable(changes obj) obj {
	return obj{
		"health": "ready", "semantic_langs": []string{"en", "zh"}, "nmt_pairs": [][]string{{"en", "zh"}, {"zh", "en"}},
		"tts_langs": []string{"en", "zh"}, "max_concurrent_jobs": 2,
	}.with(changes)
}

// node starts a node and registers it.
func (w *world) node(id string, changes obj) *node {
	w.t.Helper()
	n := w.stranger(id)
	n.said = capable(changes).with(obj{"node_id": id})
	if _, given := changes["callback_url"]; !given {
		n.said["callback_url"] = n.srv.URL + "/jobs"
	}
	n.register(nil)
	return n
}

// stranger starts a node that does not register.
func (w *world) stranger(id string) *node {
	w.t.Helper()
	n := &node{w: w, id: id}
	n.srv = httptest.NewServer(n)
	w.t.Cleanup(n.srv.Close)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[id] = n
	return n
}

func (w *world) nodeOf(id string) *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[id]
}

// other is the one of two nodes that n is not.
func (n *node) other(a, b *node) *node {
	if n == a {
		return b
	}
	return a
}

// ServeHTTP is the node's callback.
func (n *node) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	d := delivery{body: body, header: r.Header, query: r.URL.RawQuery}
	_ = json.Unmarshal(body, &d.Assignment) // a test that minds looks at the body
	n.mu.Lock()
	answer := n.answer
	n.mu.Unlock()
	n.w.delivered <- d
	if answer != nil {
		answer(rw, r)
	}
}

// answers sets how the callback answers from now on.
func (n *node) answers(fn http.HandlerFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer = fn
}

// register sends what the node says of itself, with changes.
func (n *node) register(changes obj) wire.RegisterResponse {
	n.w.t.Helper()
	var r wire.RegisterResponse
	n.w.post("/v1/node/register", n.said.with(changes)).into(&r)
	n.epoch = r.Epoch
	return r
}

// beat sends a heartbeat.
func (n *node) beat(body obj) wire.HeartbeatResponse {
	n.w.t.Helper()
	var r wire.HeartbeatResponse
	n.w.post("/v1/node/heartbeat", obj{"node_id": n.id}.with(body)).into(&r)
	return r
}

// about names an attempt in the node's name, as ack, done and fail do.
func (n *node) about(d delivery) obj {
	return obj{"job_id": d.JobID, "attempt_id": d.AttemptID, "node_id": n.id}
}

func (n *node) ack(d delivery, changes obj) answer {
	n.w.t.Helper()
	return n.w.post("/v1/job/ack", n.about(d).with(changes))
}

func (n *node) done(d delivery, changes obj) answer {
	n.w.t.Helper()
	return n.w.post("/v1/job/done", n.about(d).with(obj{"status": "ok"}).with(changes))
}

func (n *node) fail(d delivery, changes obj) answer {
	n.w.t.Helper()
	return n.w.post("/v1/job/fail", n.about(d).with(obj{"status": "error", "reason": "MODEL_LOAD_FAILED"}).with(changes))
}

// active lists attempts as a heartbeat does.
func active(list ...delivery) []obj {
	out := make([]obj, len(list))
	for i, d := range list {
		out[i] = obj{"job_id": d.JobID, "attempt_id": d.AttemptID}
	}
	return out
}
