package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/lingua-scheduler/lingua/wire"
)

// delivery is a job as a node received it.
type delivery struct {
	wire.Assignment
	body   []byte
	header http.Header
	query  string
}

// callbackNode is a node with a callback URL, which does nothing by itself: it accepts every job and passes it to the test, which sends the
// node's requests.
type callbackNode struct {
	sched       *testScheduler
	id          string
	key         string // its requests have it; empty: none
	nodeToken   string // of its registration, if it has a key
	epoch       int64
	declaration object // of its registration
	srv         *httptest.Server

	mu      sync.Mutex
	handler http.HandlerFunc // nil: 200
}

// nodeDeclaration is the declaration of a node that translates between English and Chinese, with two slots.
func nodeDeclaration(changes object) object {
	return object{
		"health": "ready", "semantic_langs": []string{"en", "zh"}, "nmt_pairs": [][]string{{"en", "zh"}, {"zh", "en"}},
		"tts_langs": []string{"en", "zh"}, "max_concurrent_jobs": 2,
	}.with(changes)
}

// registerNode starts a node and registers it.
func (ts *testScheduler) registerNode(id string, changes object) *callbackNode {
	ts.t.Helper()
	n := ts.newNode(id)
	n.declaration = nodeDeclaration(changes).with(object{"node_id": id})
	if _, given := changes["callback_url"]; !given {
		n.declaration["callback_url"] = n.callback()
	}
	n.register(nil)
	return n
}

// newNode starts a node without registering it.
func (ts *testScheduler) newNode(id string) *callbackNode {
	ts.t.Helper()
	n := &callbackNode{sched: ts, id: id}
	n.srv = httptest.NewServer(n)
	ts.t.Cleanup(n.srv.Close)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.nodes[id] = n
	return n
}

// callback is the address of the node.
func (n *callbackNode) callback() string { return n.srv.URL + "/jobs" }

func (ts *testScheduler) nodeByID(id string) *callbackNode {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.nodes[id]
}

// other is the one of two nodes that n is not.
func (n *callbackNode) other(a, b *callbackNode) *callbackNode {
	if n == a {
		return b
	}
	return a
}

// ServeHTTP is the node's callback.
func (n *callbackNode) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	d := delivery{body: body, header: r.Header, query: r.URL.RawQuery}
	_ = json.Unmarshal(body, &d.Assignment) // a test that depends on it checks the body
	n.mu.Lock()
	answer := n.handler
	n.mu.Unlock()
	n.sched.deliveries <- d
	if answer != nil {
		answer(rw, r)
	}
}

// setAnswer sets the handler of further deliveries.
func (n *callbackNode) setAnswer(fn http.HandlerFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handler = fn
}

// register sends the node's declaration, with changes.
func (n *callbackNode) register(changes object) wire.RegisterResponse {
	n.sched.t.Helper()
	var r wire.RegisterResponse
	n.sched.requestAs(n.key, "POST", "/v1/node/register", n.declaration.with(changes)).decode(&r)
	n.nodeToken, n.epoch = r.NodeToken, r.Epoch
	return r
}

// heartbeat sends a heartbeat.
func (n *callbackNode) heartbeat(body object) wire.HeartbeatResponse {
	n.sched.t.Helper()
	var r wire.HeartbeatResponse
	n.report("/v1/node/heartbeat", body).decode(&r)
	return r
}

// report sends a heartbeat or another report of the node.
func (n *callbackNode) report(path string, changes object) response {
	n.sched.t.Helper()
	body := object{"node_id": n.id}
	if n.key != "" {
		body["node_token"] = n.nodeToken
	}
	return n.sched.requestAs(n.key, "POST", path, body.with(changes))
}

// reportBody is the body of a report of the node about an attempt.
func (n *callbackNode) reportBody(d delivery) object {
	return object{"job_id": d.JobID, "attempt_id": d.AttemptID, "node_id": n.id}
}

func (n *callbackNode) ack(d delivery, changes object) response {
	n.sched.t.Helper()
	return n.report("/v1/job/ack", n.reportBody(d).with(changes))
}

func (n *callbackNode) done(d delivery, changes object) response {
	n.sched.t.Helper()
	return n.report("/v1/job/done", n.reportBody(d).with(object{"status": "ok"}).with(changes))
}

func (n *callbackNode) fail(d delivery, changes object) response {
	n.sched.t.Helper()
	return n.report("/v1/job/fail", n.reportBody(d).with(object{"status": "error", "reason": "MODEL_LOAD_FAILED"}).with(changes))
}

// activeList is the field "active" of a heartbeat.
func activeList(list ...delivery) []object {
	out := make([]object, len(list))
	for i, d := range list {
		out[i] = object{"job_id": d.JobID, "attempt_id": d.AttemptID}
	}
	return out
}
