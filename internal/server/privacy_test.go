package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// finishSpoken finishes the job of acme with a text, and returns its id.
func finishSpoken(ts *testScheduler) string {
	ts.t.Helper()
	m := newMatrixObjects(ts)
	job, n := m.jobs["acme"], m.nodes["acme"]
	ts.requestAs(keySecret("node-acme"), "POST", "/v1/job/done", object{
		"job_id": job.JobID, "attempt_id": job.AttemptID, "node_id": n.id, "node_token": n.nodeToken, "status": "ok", "result": object{"text_src": spokenText},
	}).expectOK()
	return job.JobID
}

// TestTextIsAskedFor: programs with a key read what was said as ever. People, with a login, have to ask for it, and the audit log has who did.
func TestTextIsAskedFor(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t, anonymous("operator"))
	id := finishSpoken(ts)
	people := ts.login(keySecret("operator"))
	viewer := ts.login(keySecret("viewer"))
	byKey := func(name string) func(path string) response {
		return func(path string) response { return ts.requestAs(keySecret(name), "GET", path, nil) }
	}
	byCookie := func(c *http.Cookie) func(path string) response {
		return func(path string) response { return ts.requestWith(c, "GET", path, nil) }
	}
	for _, c := range []struct {
		name  string
		ask   func(path string) response
		plain bool // it has the text without asking
		asked int  // the status if it asks
	}{
		{"a program of an operator", byKey("operator"), true, 200},
		{"a program of the tenant", byKey("minter-acme"), true, 200},
		{"a program of another tenant", byKey("minter-beta"), false, 404},
		{"a viewer's key", byKey("viewer"), false, 403},
		{"an operator who has logged in", byCookie(people), false, 200},
		{"a viewer who has logged in", byCookie(viewer), false, 403},
		{"an operator without a name", byCookie(nil), false, 403},
		{"a page with an operator's key", func(path string) response {
			return ts.requestWith(nil, "GET", path, nil, "Authorization", "Bearer "+keySecret("operator"), "Sec-Fetch-Site", "same-origin")
		}, false, 200},
	} {
		for path, shows := range map[string]bool{
			"/v1/jobs/" + id: c.plain, "/v1/jobs/" + id + "?decisions=true": c.plain, "/v1/jobs/" + id + "/decisions": false, "/v1/jobs": c.plain,
			"/v1/jobs/" + id + "?text=false": false, "/v1/jobs?text=false": false, "/v1/jobs/" + id + "?decisions=true&text=false": false,
		} {
			if got := c.ask(path); strings.Contains(string(got.body), spokenWord) != shows {
				t.Errorf("%s, %s: %d %s", c.name, path, got.status, got.body)
			}
		}
		for _, query := range []string{"?text=true", "?text=true&decisions=true"} {
			got := c.ask("/v1/jobs/" + id + query)
			if got.status != c.asked || strings.Contains(string(got.body), spokenWord) != (c.asked == 200) {
				t.Errorf("%s asks with %s: %d %s", c.name, query, got.status, got.body)
			}
		}
		for _, path := range []string{"/v1/jobs?text=true", "/v1/jobs/" + id + "?text=yes", "/v1/jobs/" + id + "?text=", "/v1/jobs?text=1"} {
			if got := c.ask(path); got.status != http.StatusBadRequest {
				t.Errorf("%s, %s: %d %s", c.name, path, got.status, got.body)
			}
		}
	}
	var job wire.JobDetail
	ts.requestWith(people, "GET", "/v1/jobs/"+id, nil).decode(&job)
	if !job.ResultWithheld || job.Result != nil {
		t.Errorf("%+v", job)
	}
	var cancelled wire.CancelResponse
	ts.requestWith(people, "POST", "/v1/jobs/"+id+"/cancel", nil).decode(&cancelled)
	if !cancelled.Job.ResultWithheld {
		t.Errorf("%+v", cancelled.Job)
	}
	ts.eventually("the audit log has who read it, and who was denied", func() bool { return len(ts.readTexts()) == 16 })
	want := []string{
		"acme/minter-acme job/" + id + " ok", "acme/operator job/" + id + " ok", "/viewer job/" + id + " denied", "/anonymous job/" + id + " denied", "beta/minter-beta job/" + id + " failed",
	}
	for _, line := range ts.readTexts() {
		if !slices.Contains(want, line) {
			t.Errorf("%s is not one of %v", line, want)
		}
	}
}

// readTexts lists who read what was said, or was denied it.
func (ts *testScheduler) readTexts() []string {
	ts.t.Helper()
	var list wire.AuditList
	ts.requestAs(keySecret("operator"), "GET", "/v1/audit?action=job.read_text", nil).decode(&list)
	var lines []string
	for _, e := range list.Entries {
		lines = append(lines, e.TenantID+"/"+e.Key+" "+e.Object+" "+e.Outcome)
	}
	return lines
}

// TestTextWithoutKeys: without keys there are no logins; a page is recognised by what its browser sends.
func TestTextWithoutKeys(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, func(*config.Config) {})
	n := ts.registerNode("n1", nil)
	d, _ := ts.dispatchAndReceive(dispatchBody(nil))
	n.done(d, object{"result": object{"text_src": spokenText}}).expectOK()
	for _, c := range []struct {
		query   string
		headers []string
		shows   bool
	}{
		{"", nil, true},
		{"", []string{"Sec-Fetch-Site", "same-origin"}, false},
		{"?text=true", []string{"Sec-Fetch-Site", "same-origin"}, true},
		{"?text=false", nil, false},
	} {
		got := ts.requestWith(nil, "GET", "/v1/jobs/"+d.JobID+c.query, nil, c.headers...)
		if strings.Contains(string(got.body), spokenWord) != c.shows {
			t.Errorf("%s %v: %s", c.query, c.headers, got.body)
		}
	}
}

// TestTextOfDeadLetters: the body of a dead letter is asked for by its id, and with a login explicitly.
func TestTextOfDeadLetters(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	operator := keySecret("operator")
	ts.requestAs(operator, "GET", "/v1/dlq?text=true", nil).expectError(wire.InvalidRequest)
	ts.requestAs(operator, "GET", "/v1/dlq?id=i/1-1&text=maybe", nil).expectError(wire.InvalidRequest)
	ts.requestAs(operator, "GET", "/v1/dlq?id=i/1-1&text=true", nil).expectError(wire.NotFound)
	ts.requestAs(keySecret("viewer"), "GET", "/v1/dlq?id=i/1-1&text=true", nil).expectError(wire.Forbidden)
}
