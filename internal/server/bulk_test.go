package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// startBulk starts a scheduler with jobs of the rooms a and b, on nodes in two regions.
func startBulk(t *testing.T, jobs int) *testScheduler {
	t.Helper()
	ts := startScheduler(t)
	for _, n := range []string{"eu-1", "eu-2", "eu-3", "us-1"} {
		region, _, _ := strings.Cut(n, "-")
		ts.registerNode(n, object{"max_concurrent_jobs": 100, "region": region})
	}
	for i := range jobs {
		ts.dispatch(dispatchBody(object{"session_id": "room-" + string("ab"[i%2])}))
	}
	return ts
}

// openJobs counts the jobs that have not ended.
func (ts *testScheduler) openJobs() int {
	ts.t.Helper()
	var list wire.JobList
	ts.get("/v1/jobs?limit=1000").decode(&list)
	open := 0
	for _, j := range list.Jobs {
		switch j.State {
		case "DISPATCHED", "ACKED", "RETRYING":
			open++
		}
	}
	return open
}

// drained lists the nodes that are drained.
func (ts *testScheduler) drained() string {
	ts.t.Helper()
	var list wire.NodeList
	ts.get("/v1/nodes").decode(&list)
	var names []string
	for _, n := range list.Nodes {
		if n.Drained {
			names = append(names, n.NodeID)
		}
	}
	return spaced(names...)
}

// auditEntries lists the entries of an action.
func (ts *testScheduler) auditEntries(action string) []wire.AuditEntry {
	ts.t.Helper()
	var list wire.AuditList
	ts.get("/v1/audit?action=" + action).decode(&list)
	return list.Entries
}

// TestCancelMany counts, confirms and cancels. A repeated request is refused, also if as many other jobs match by then.
func TestCancelMany(t *testing.T) {
	t.Parallel()
	ts := startBulk(t, 8)
	cancel := func(body object) response { return ts.post("/v1/jobs/cancel", body) }
	var counted, done wire.JobsCancelResponse
	cancel(object{"filter": object{"session_id": "room-a", "state": "open"}, "dry_run": true}).decode(&counted)
	if diff := cmp.Diff(wire.JobsCancelResponse{DryRun: true, Matches: 4, Remaining: 4, UntilMS: counted.UntilMS}, counted); diff != "" || ts.openJobs() != 8 {
		t.Fatalf("%d open, (-want +got)\n%s", ts.openJobs(), diff)
	}
	ts.eventually("jobs are created later", func() bool { return time.Now().UnixMilli() > counted.UntilMS })
	for range 4 {
		ts.dispatch(dispatchBody(object{"session_id": "room-a"}))
	}
	others := ts.openJobs() - 4
	confirmed := object{"filter": object{"session_id": "room-a", "until": counted.UntilMS}, "expect": 4}
	cancel(confirmed).decode(&done)
	if diff := cmp.Diff(wire.JobsCancelResponse{Matches: 4, Cancelled: 4, UntilMS: counted.UntilMS}, done); diff != "" || ts.openJobs() != others {
		t.Errorf("%d open, want %d, (-want +got)\n%s", ts.openJobs(), others, diff)
	}
	if e := cancel(confirmed).expectError(wire.MatchesChanged); e.Field != "expect" || ts.openJobs() != others {
		t.Errorf("%+v, %d open", e, ts.openJobs())
	}
	ts.eventually("the audit log has both", func() bool { return len(ts.auditEntries("job.cancel_many")) == 2 })
	entries := ts.auditEntries("job.cancel_many")
	if e := entries[0]; e.Outcome != "ok" || e.Object != fmt.Sprintf("jobs/4 of 4?session_id=room-a&until=%d", counted.UntilMS) {
		t.Errorf("%+v", e)
	}
	if e := entries[1]; e.Outcome != "failed" || e.Reason != string(wire.MatchesChanged) {
		t.Errorf("%+v", e)
	}
}

// later is a time after all jobs of a test.
const later = int64(9_000_000_000_000)

// TestBulkIsBounded: neither more than the limit nor more than was confirmed is changed, and a tenth more or less is accepted.
func TestBulkIsBounded(t *testing.T) {
	t.Parallel()
	ts := startBulk(t, 21)
	body := object{"filter": object{"until": later}}
	for expect, status := range map[int]int{0: 409, 10: 409, 19: 409, 24: 409, 1000: 409} {
		if a := ts.post("/v1/jobs/cancel", body.with(object{"expect": expect})); a.status != status {
			t.Errorf("%d expected: %d %s", expect, a.status, a.body)
		}
	}
	if open := ts.openJobs(); open != 21 {
		t.Fatalf("%d are open", open)
	}
	var out wire.JobsCancelResponse
	ts.post("/v1/jobs/cancel", body.with(object{"expect": 20, "limit": 3})).decode(&out)
	if out.Cancelled != 3 || out.Remaining != 18 || out.Matches != 21 || ts.openJobs() != 18 {
		t.Errorf("with a limit: %+v", out)
	}
	ts.post("/v1/jobs/cancel", body.with(object{"expect": 17})).decode(&out)
	if out.Cancelled != 17 || out.Remaining != 1 || ts.openJobs() != 1 {
		t.Errorf("one more than was confirmed: %+v", out)
	}
	ts.post("/v1/jobs/cancel", body.with(object{"expect": 1})).decode(&out)
	if out.Cancelled != 1 || out.Remaining != 0 || ts.openJobs() != 0 {
		t.Errorf("the last: %+v", out)
	}
	ts.post("/v1/jobs/cancel", body.with(object{"expect": 0})).decode(&out)
	if out.Cancelled != 0 || out.Matches != 0 {
		t.Errorf("none: %+v", out)
	}
}

// TestBulkTwiceAtOnce sends the same confirmed request many times at once: each job is cancelled once, and every answer says what it did.
func TestBulkTwiceAtOnce(t *testing.T) {
	t.Parallel()
	ts := startBulk(t, 40)
	body := encode(t, object{"filter": object{"until": later}, "expect": 40})
	var mu sync.Mutex
	var senders sync.WaitGroup
	cancelled := 0
	for range 8 {
		senders.Go(func() {
			a := ts.request("POST", "/v1/jobs/cancel", "application/json", body)
			mu.Lock()
			defer mu.Unlock()
			switch a.status {
			case http.StatusOK:
				var out wire.JobsCancelResponse
				a.decode(&out)
				cancelled += out.Cancelled
				if out.Cancelled+out.AlreadyEnded+out.Failed+out.Remaining != out.Matches {
					t.Errorf("%+v", out)
				}
			case http.StatusConflict, http.StatusTooManyRequests:
			default:
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	senders.Wait()
	if cancelled != 40 || ts.openJobs() != 0 {
		t.Errorf("%d were cancelled, %d are open", cancelled, ts.openJobs())
	}
}

// TestBulkRefusesBadInput: what is wrong is named and changes nothing. A filter that is not known is refused, because ignoring it would select more.
func TestBulkRefusesBadInput(t *testing.T) {
	t.Parallel()
	ts := startBulk(t, 3)
	for _, path := range []string{"/v1/jobs/cancel", "/v1/nodes/drain", "/v1/nodes/resume"} {
		for body, field := range map[string]string{
			`{"filter":{"until":9000000000000},"expect":3,"x":1}`:           "",
			`{"filters":{"until":9000000000000},"expect":3}`:                "",
			`{"filter":{"nodeid":"eu-1","until":9000000000000},"expect":3}`: "",
			`{"expect":3}`:                                                  "filter",
			`{"filter":null,"expect":3}`:                                    "filter",
			`{"filter":{}}`:                                                 "expect",
			`{"filter":{},"expect":-1}`:                                     "expect",
			`{"filter":{},"expect":1.5}`:                                    "expect",
			`{"filter":{},"expect":"3"}`:                                    "expect",
			`{"filter":{},"expect":3,"limit":10001}`:                        "limit",
			`{"filter":{},"expect":3,"limit":-1}`:                           "limit",
			`{"filter":{"state":"DONE","until":9000000000000},"expect":3}`:  "filter.state",
			`{"filter":{"state":"silly","until":9000000000000},"expect":3}`: "filter.state",
			`{"filter":{"language":"?","until":9000000000000},"expect":3}`:  "filter.language",
			`{"filter":[],"expect":3}`:                                      "filter",
			`{"filter":{"region":"","until":9000000000000},"expect":3}`:     "filter.region",
			`{"filter":{"region":"a b"},"dry_run":true}`:                    "filter.region",
			`{"filter":{"tenant_id":"a/b"},"dry_run":true}`:                 "filter.tenant_id",
			`[]`: "", `null`: "", ``: "", `{"filter":{}`: "",
		} {
			if strings.Contains(body, "until") && path != "/v1/jobs/cancel" {
				body = strings.Replace(strings.Replace(body, `,"until":9000000000000`, "", 1), `"until":9000000000000`, "", 1)
			}
			e := ts.request("POST", path, "application/json", []byte(body)).expectError(wire.InvalidRequest)
			if field != "" && e.Field != field {
				t.Errorf("%s %s: %+v", path, body, e)
			}
		}
	}
	if e := ts.post("/v1/jobs/cancel", object{"filter": object{}, "expect": 3}).expectError(wire.InvalidRequest); e.Field != "filter.until" {
		t.Errorf("%+v", e)
	}
	for _, body := range []object{{"filter": object{"src_lang": "en"}, "dry_run": true}, {"filter": object{"search": "a b"}, "dry_run": true}, {"filter": object{"service": strings.Repeat("a", 129)}, "dry_run": true}} {
		ts.post("/v1/nodes/drain", body).expectError(wire.InvalidRequest)
	}
	if ts.openJobs() != 3 || ts.drained() != "" {
		t.Errorf("%d jobs are open, drained: %s", ts.openJobs(), ts.drained())
	}
}

// TestDrainMany drains and resumes nodes by filters. It can be repeated.
func TestDrainMany(t *testing.T) {
	t.Parallel()
	ts := startBulk(t, 0)
	ts.registerNode("fr-1", object{"region": "fr", "nmt": nil, "installed_services": []object{{"service_id": "asr", "version": "2", "status": "ready"}}})
	count := func(filter object) int {
		t.Helper()
		var out wire.NodesDrainResponse
		ts.post("/v1/nodes/drain", object{"filter": filter, "dry_run": true}).decode(&out)
		return out.Matches
	}
	for _, c := range []struct {
		filter object
		want   int
	}{
		{object{}, 5}, {object{"region": "eu"}, 3}, {object{"search": "EU-"}, 3}, {object{"search": "-1"}, 3}, {object{"search": "x"}, 0}, {object{"state": "ready"}, 5},
		{object{"state": "draining"}, 0}, {object{"language": "zh"}, 5}, {object{"language": "ko"}, 0}, {object{"src_lang": "en", "tgt_lang": "zh"}, 5},
		{object{"src_lang": "en", "tgt_lang": "ko"}, 0}, {object{"tenant_id": "acme"}, 0}, {object{"service": "asr"}, 1}, {object{"service": "asr@2"}, 1},
		{object{"service": "asr@3"}, 0}, {object{"pool_id": "p"}, 0}, {object{"region": "eu", "search": "2"}, 1},
	} {
		if got := count(c.filter); got != c.want {
			t.Errorf("%v matches %d, want %d", c.filter, got, c.want)
		}
	}
	if ts.drained() != "" {
		t.Fatalf("a dry run drained %s", ts.drained())
	}
	eu := object{"filter": object{"region": "eu"}, "expect": 3}
	var out wire.NodesDrainResponse
	ts.post("/v1/nodes/drain", eu.with(object{"expect": 4})).expectError(wire.MatchesChanged)
	ts.post("/v1/nodes/drain", eu).decode(&out)
	if diff := cmp.Diff(wire.NodesDrainResponse{Matches: 3, Changed: 3}, out); diff != "" || ts.drained() != "eu-1 eu-2 eu-3" {
		t.Errorf("drained: %s (-want +got)\n%s", ts.drained(), diff)
	}
	ts.post("/v1/nodes/drain", eu).decode(&out)
	if diff := cmp.Diff(wire.NodesDrainResponse{Matches: 3, Unchanged: 3}, out); diff != "" {
		t.Errorf("repeated (-want +got)\n%s", diff)
	}
	if n := count(object{"state": "draining"}); n != 3 {
		t.Errorf("%d are draining", n)
	}
	ts.post("/v1/nodes/resume", object{"filter": object{"state": "draining"}, "expect": 3, "limit": 2}).decode(&out)
	if diff := cmp.Diff(wire.NodesDrainResponse{Matches: 3, Changed: 2, Remaining: 1}, out); diff != "" || ts.drained() != "eu-3" {
		t.Errorf("drained: %s (-want +got)\n%s", ts.drained(), diff)
	}
	ts.post("/v1/nodes/resume", object{"filter": object{"state": "draining"}, "expect": 3}).expectError(wire.MatchesChanged)
	ts.eventually("the audit log has them, and no dry run", func() bool {
		return len(ts.auditEntries("node.drain_many")) == 3 && len(ts.auditEntries("node.resume_many")) == 2
	})
	if e := ts.auditEntries("node.drain_many")[1]; e.Object != "nodes/3 of 3?region=eu" || e.Outcome != "ok" {
		t.Errorf("%+v", e)
	}
}

// TestNamesLikeActions: a job or a node may be named as an action is, and is shown; other methods are answered as ever.
func TestNamesLikeActions(t *testing.T) {
	t.Parallel()
	ts := startBulk(t, 0)
	ts.registerNode("drain", nil)
	if n := ts.getNode("drain"); n.NodeID != "drain" {
		t.Errorf("%+v", n)
	}
	ts.get("/v1/jobs/cancel").expectError(wire.NotFound)
	refused := ts.request("PUT", "/v1/jobs/cancel", "", nil)
	refused.expectError(wire.MethodNotAllowed)
	if diff := cmp.Diff([]string{"GET", "POST"}, refused.header.Values("Allow")); diff != "" {
		t.Errorf("Allow (-want +got)\n%s", diff)
	}
}
