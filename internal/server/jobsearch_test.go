package server_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestJobSearch ends jobs in several ways and searches for them.
func TestJobSearch(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", object{"max_concurrent_jobs": 9})
	names := make(map[string]string) // of jobs, by id
	begin := func(name string, body object) delivery {
		ts.awaitNextMillisecond() // the list is ordered by time
		d, _ := ts.dispatchAndReceive(dispatchBody(body))
		names[d.JobID] = name
		return d
	}
	done := begin("done", object{"session_id": "room-1"})
	n.done(done, object{"result": object{"text_tgt": "what was said"}})
	n.fail(begin("retried", object{"src_lang": "zh", "tgt_lang": "en", "session_id": "room-3"}), object{"reason": "broken"})
	again, _ := ts.nextDelivery()
	n.done(again, object{"result": object{"text_tgt": "what was said"}})
	cancelled := begin("cancelled", object{"src_lang": "zh", "tgt_lang": "en", "session_id": "room-2"})
	ts.cancelJob(cancelled.JobID)
	begin("running", nil)
	created := ts.getJob(done.JobID).CreatedMS

	for query, want := range map[string]string{
		"":                                           "running cancelled retried done",
		"reason=NODE_FAILED":                         "retried",
		"end_reason=NODE_FAILED":                     "",
		"end_reason=CANCELLED":                       "cancelled",
		"state=open&end_reason=CANCELLED":            "",
		"reason=CANCELLED":                           "cancelled",
		"reason=NODE_LOST":                           "",
		"state=DONE":                                 "retried done",
		"state=open":                                 "running",
		"state=open&node_id=n1":                      "running",
		"state=open&node_id=n2":                      "",
		"state=ended":                                "cancelled retried done",
		"state=ended&reason=CANCELLED":               "cancelled",
		"src_lang=zh&tgt_lang=en":                    "cancelled retried",
		"src_lang=en&tgt_lang=fr":                    "",
		"tgt_lang=ZH&session_id=room-1":              "done",
		"node_id=n1&state=CANCELLED":                 "cancelled",
		"search=" + done.JobID[:12]:                  "done",
		"search=zzz":                                 "",
		fmt.Sprint("since=", created+1e9):            "",
		fmt.Sprint("since=", created, "&state=DONE"): "retried done",
		fmt.Sprint("until=", created):                "",
		"tenant_id=acme":                             "",
	} {
		var list wire.JobList
		ts.get("/v1/jobs?" + query).decode(&list)
		var got []string
		for _, job := range list.Jobs {
			got = append(got, names[job.JobID])
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
}

// TestInvalidSearches checks that a filter that nothing can match is refused, and named, however long it is.
func TestInvalidSearches(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	long := strings.Repeat("x", 20_000)
	for _, query := range []string{
		"state=OPEN", "state=closed", "reason=node_lost", "reason=A%20B", "end_reason=node_lost", "reason=" + strings.Repeat("A", 65), "search=%00", "search=a/b", "search=" + long, "src_lang=" + long,
		"tgt_lang=%F0", "tenant_id=*", "tenant_id=" + long, "since=yesterday", "since=-1", "since=9223372036854775807", "until=1e3", "until=99999999999999999999",
		"candidates=1", "since=" + long,
	} {
		r := ts.get("/v1/jobs?" + query)
		r.expectError(wire.InvalidRequest)
		if len(r.body) > 2000 {
			t.Errorf("the answer to a query of %d bytes has %d", len(query), len(r.body))
		}
	}
	for _, path := range []string{"/v1/jobs/a%20b/decisions", "/v1/jobs/" + long + "/decisions", "/v1/jobs/a/decisions?scope=everywhere", "/v1/jobs/a?decisions=1"} {
		ts.get(path).expectError(wire.InvalidRequest)
	}
	for _, path := range []string{"/v1/jobs/unknown/decisions", "/v1/jobs/unknown?decisions=true", "/v1/jobs/unknown"} {
		ts.get(path).expectError(wire.NotFound)
	}
}

// TestDecisionsShowCandidates checks that the nodes that were drawn are shown, each with why it was not chosen, and nothing that was said.
func TestDecisionsShowCandidates(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	for _, id := range []string{"n1", "n2", "n3"} {
		ts.registerNode(id, nil)
	}
	ts.request("POST", "/v1/nodes/n2/drain", "", nil)
	reasons := make(map[string]string) // of candidates, by node: the last seen
	for i := range 30 {
		d, n := ts.dispatchAndReceive(dispatchBody(object{"request_id": fmt.Sprint("r-", i)}))
		n.done(d, object{"result": object{"text_tgt": "what was said"}})
		r := ts.get("/v1/jobs/" + d.JobID + "?decisions=true")
		var job wire.JobDetail
		r.decode(&job)
		if len(job.Decisions) != 1 || job.Decisions[0].NodeID != n.id || job.Decisions[0].AttemptID != 1 || job.Decisions[0].Instance == "" || job.Incomplete != nil {
			t.Fatalf("decisions %+v, want one for %s", job.Decisions, n.id)
		}
		for _, c := range job.Decisions[0].Candidates {
			if c.Chosen != (c.NodeID == n.id) {
				t.Errorf("candidate %+v, and %s was chosen", c, n.id)
			}
			reasons[c.NodeID] = c.Reason
		}
		if got := ts.get("/v1/jobs/" + d.JobID + "/decisions"); strings.Contains(string(got.body), "said") {
			t.Errorf("the decisions have what was said: %s", got.body)
		}
	}
	if diff := cmp.Diff(map[string]string{"n1": "", "n2": "DRAINED", "n3": ""}, reasons); diff != "" {
		t.Errorf("reasons of candidates (-want +got):\n%s", diff)
	}
}

// TestDecisionsOfRetries checks that each attempt has its decision, and that a node that had the job is rejected for that.
func TestDecisionsOfRetries(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", nil)
	ts.registerNode("n2", nil)
	first, n := ts.dispatchAndReceive(dispatchBody(nil))
	n.fail(first, object{"reason": "broken"})
	second, m := ts.nextDelivery()
	m.done(second, object{"result": object{"text_tgt": "x"}})
	var out wire.JobDecisions
	ts.get("/v1/jobs/" + first.JobID + "/decisions").decode(&out)
	var got []string
	for _, d := range out.Decisions {
		got = append(got, fmt.Sprint(d.AttemptID, " ", d.NodeID))
		for _, c := range d.Candidates {
			if d.AttemptID == 2 && c.NodeID == n.id && c.Reason != "ALREADY_TRIED" {
				t.Errorf("the node that had the job was rejected for %q", c.Reason)
			}
		}
	}
	if diff := cmp.Diff([]string{"1 " + n.id, "2 " + m.id}, got); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	if out.Job == nil || out.Job.State != "DONE" || out.Job.Result != nil || len(out.Job.Attempts) != 2 {
		t.Errorf("the remembered job is %+v", out.Job)
	}
}

// TestTenantsDoNotSeeDecisionsOfOthers checks lists, jobs, decisions and candidates for keys of one tenant.
func TestTenantsDoNotSeeDecisionsOfOthers(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	m := newMatrixObjects(ts)
	acme, beta := m.jobs["acme"].JobID, m.jobs["beta"].JobID
	for _, path := range []string{"/v1/jobs/" + beta, "/v1/jobs/" + beta + "?decisions=true", "/v1/jobs/" + beta + "/decisions"} {
		ts.requestAs(keySecret("viewer-acme"), "GET", path, nil).expectError(wire.NotFound)
	}
	var here wire.JobDecisions
	ts.requestAs(keySecret("viewer-acme"), "GET", "/v1/jobs/"+beta+"/decisions?scope=here", nil).decode(&here)
	if here.Job != nil || len(here.Decisions) > 0 {
		t.Errorf("a key of acme sees %+v of beta", here)
	}
	ts.requestAs(keySecret("viewer-acme"), "GET", "/v1/jobs?tenant_id=beta", nil).expectError(wire.Forbidden)
	var list wire.JobList
	ts.requestAs(keySecret("viewer-acme"), "GET", "/v1/jobs?search="+url.QueryEscape(beta[:8]), nil).decode(&list)
	for _, job := range list.Jobs {
		if job.TenantID != "acme" {
			t.Errorf("a key of acme lists %+v", job)
		}
	}
	// A node that has just become one of another tenant may be drawn still.
	ts.scheduler.Stats.Jobs.AddDecision(&core.Decision{
		Job: core.JobID(acme), Tenant: "acme", Attempt: 2, Node: "acme-1", Others: map[core.Reason]int{core.ReasonTenant: 1, core.ReasonFull: 1},
		Candidates: []core.Candidate{{Node: "beta-1", Reason: core.ReasonTenant}, {Node: "acme-1"}},
	})
	for key, want := range map[string]string{"viewer-acme": "[acme-1] map[FULL:1]", "operator": "[beta-1 acme-1] map[FULL:1 OTHER_TENANT:1]"} {
		var job wire.JobDetail
		ts.requestAs(keySecret(key), "GET", "/v1/jobs/"+acme+"?decisions=true", nil).decode(&job)
		last := job.Decisions[len(job.Decisions)-1]
		var candidates []string
		for _, c := range last.Candidates {
			candidates = append(candidates, c.NodeID)
		}
		if got := fmt.Sprint(candidates, last.Others); len(job.Decisions) != 2 || got != want {
			t.Errorf("%s sees %d decisions, the last with %s, want 2 and %s", key, len(job.Decisions), got, want)
		}
	}
	if acme == beta {
		t.Fatal("the tenants share a job")
	}
}

// TestRememberedJobsOutliveTheirRecords checks that a job is found after its record has expired.
func TestRememberedJobsOutliveTheirRecords(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	job := ts.rememberedOnly("job-remembered", time.Now())
	var list wire.JobList
	ts.get("/v1/jobs?search=job-remembered").decode(&list)
	if len(list.Jobs) != 1 || list.Jobs[0].JobID != string(job) {
		t.Errorf("found %+v", list.Jobs)
	}
	var detail wire.JobDetail
	ts.get("/v1/jobs/job-remembered?decisions=true").decode(&detail)
	if detail.State != "FAILED" || detail.Reason != "NODE_LOST" || len(detail.Attempts) != 1 {
		t.Errorf("the job is %+v", detail)
	}
}
