package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

// answerProbe makes the node of the next delivery react to it, and returns a channel that is closed when it has.
func (ts *testScheduler) answerProbe(react func(n *callbackNode, d delivery)) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		d := <-ts.deliveries
		react(ts.nodeByID(d.NodeID), d)
	}()
	return done
}

// TestNodeProbe checks a probe of a drained node over HTTP: what the node receives, and what the operator is told.
func TestNodeProbe(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", nil)
	ts.registerNode("n2", nil)
	ts.request("POST", "/v1/nodes/n1/drain", "", nil).decode(new(wire.Node))
	var got delivery
	reacted := ts.answerProbe(func(n *callbackNode, d delivery) {
		got = d
		n.ack(d, nil).expectOK()
		n.done(d, object{"result": object{"text_tgt": "what nobody said"}}).expectOK()
	})
	var out wire.ProbeResult
	a := ts.request("POST", "/v1/nodes/n1/probe", "", nil)
	a.decode(&out)
	<-reacted
	if !out.OK || out.NodeID != "n1" || out.State != "DONE" || out.Reason != "" || out.SrcLang != "en" || out.TgtLang != "zh" || !out.ResultWithheld || out.StartedMS == 0 {
		t.Errorf("the answer is %+v", out)
	}
	if out.ReserveMS == nil || out.DeliverMS == nil || out.AckMS == nil || out.ResultMS == nil || *out.ReserveMS+*out.DeliverMS+*out.AckMS+*out.ResultMS > out.TotalMS+4 {
		t.Errorf("the times are %s", a.body)
	}
	if !got.Probe || got.AudioRef != wire.ProbeAudio || got.NodeID != "n1" {
		t.Errorf("the node received %s", got.body)
	}
	if strings.Contains(string(a.body), "nobody") {
		t.Errorf("the answer has the text: %s", a.body)
	}
	if job := ts.getJob(out.JobID); !job.Probe || job.State != "DONE" {
		t.Errorf("the job is %+v", job)
	}
	ts.awaitFree("n1")
	if n := ts.getNode("n1"); !n.Drained || n.Failures != nil {
		t.Errorf("the node is %+v", n)
	}
	ts.expectAudit("", "/operator@ node.register node/n1 ok", "/operator@ node.register node/n2 ok", "/operator@ node.drain node/n1 ok", "/operator@ node.probe node/n1 ok")
}

// TestNodeProbeFails checks a probe whose node fails, in a direction that was asked for.
func TestNodeProbeFails(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", nil)
	ts.registerNode("n2", nil)
	reacted := ts.answerProbe(func(n *callbackNode, d delivery) { n.fail(d, object{"reason": "OUT_OF_MEMORY"}).expectOK() })
	var out wire.ProbeResult
	ts.post("/v1/nodes/n1/probe", object{"src_lang": "zh", "tgt_lang": "en", "timeout_ms": 5000}).decode(&out)
	<-reacted
	if out.OK || out.State != "FAILED" || out.Reason != "NODE_FAILED" || out.Detail != "OUT_OF_MEMORY" || out.SrcLang != "zh" || out.ResultWithheld || out.AckMS != nil {
		t.Errorf("the answer is %+v", out)
	}
	ts.expectNoDelivery()
	ts.expectAudit("", "/operator@ node.register node/n1 ok", "/operator@ node.register node/n2 ok", "/operator@ node.probe node/n1 failed NODE_FAILED")
}

func TestBadNodeProbes(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", object{"max_concurrent_jobs": 1})
	for field, body := range map[string]object{
		"src_lang": {"tgt_lang": "en"}, "tgt_lang": {"src_lang": "en"}, "timeout_ms": {"timeout_ms": 60_001},
	} {
		if e := ts.post("/v1/nodes/n1/probe", body).expectError(wire.InvalidRequest); e.Field != field {
			t.Errorf("%v: the error is about %q", body, e.Field)
		}
	}
	for _, body := range []object{{"timeout_ms": 99}, {"timeout_ms": -1}, {"timeout_ms": "soon"}, {"src_lang": "en", "tgt_lang": "en"}, {"src_lang": "?", "tgt_lang": "en"}} {
		ts.post("/v1/nodes/n1/probe", body).expectError(wire.InvalidRequest)
	}
	ts.request("POST", "/v1/nodes/n1/probe", "text/plain", []byte("now")).expectError(wire.UnsupportedMediaType)
	ts.post("/v1/nodes/unknown/probe", object{}).expectError(wire.NotFound)
	ts.post("/v1/nodes/a%20b/probe", object{}).expectError(wire.InvalidRequest)
	ts.post("/v1/nodes/n1/probe", object{"src_lang": "en", "tgt_lang": "fr"}).expectError(wire.PreferredNodeNotCapable)
	ts.dispatchAndReceive(dispatchBody(nil))
	if e := ts.post("/v1/nodes/n1/probe", object{}).expectError(wire.AllCandidatesFullOrFailed); e.Reasons["FULL"] != 1 {
		t.Errorf("%+v", e)
	}
	if a := ts.post("/v1/nodes/n1/probe", object{}); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %v", a.status, a.header)
	}
	ts.expectNoDelivery()
}
