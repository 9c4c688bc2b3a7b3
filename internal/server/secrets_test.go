package server_test

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// What must never be written down: what was said, where the sound of it is, and every key.
const (
	spokenText   = "meet me at the old harbour"
	spokenWord   = "harbour"
	audioPath    = "recordings-of-room-888"
	audioKey     = "audio-key-4711"
	callbackKey  = "callback-key-4712"
	signingKey   = "signing-key-4713"
	signatureTag = "v1="
)

// hasty gives a job up soon that nobody takes.
func shortJobTimeout(c *config.Config) {
	c.Scheduler.Dispatch.AttemptTimeoutMS, c.Scheduler.Dispatch.JobTimeoutMS = 1000, 1500
}

// TestNothingSaidIsLogged lives through everything that is worth a line in the log, at the level that logs
// most, and looks for what must not be there.
func TestSecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, shortACKTimeout, shortJobTimeout, func(c *config.Config) {
		c.Callback.Secret = signingKey
		c.Scheduler.Observability.PathWarnMS = 0 // every request is worth a line
	})
	keyed := func(id string) *callbackNode {
		// A delivery of which nobody knows whether it arrived keeps its slot; there are many below.
		n := ts.registerNode(id, object{"callback_url": nil, "max_concurrent_jobs": 100})
		n.declaration["callback_url"] = n.srv.URL + "/jobs?key=" + callbackKey
		n.register(nil)
		return n
	}
	ask := dispatchBody(object{"audio_ref": "https://store/" + audioPath + "/1.wav?sig=" + audioKey})
	a, b := keyed("a"), keyed("b")

	d, first := ts.dispatchAndReceive(ask)
	if d.AudioRef != ask["audio_ref"] || d.query != "key="+callbackKey {
		t.Fatalf("the node should have been given what it needs: %+v?%s", d.Assignment, d.query)
	}
	first.ack(d, nil).expectOK()
	first.fail(d, object{"reason": "could not translate: " + spokenText}).expectOK()
	d, second := ts.nextDelivery()
	expectNoSecrets(t, "a job that goes on after prose", string(ts.get("/v1/jobs/"+d.JobID).body))
	second.done(d, object{"status": "error", "reason": spokenText}).expectOK()
	d, _ = ts.nextDelivery() // the last attempt, or it would be delivered in the midst of what follows
	ts.cancelJob(d.JobID)
	failed := d.JobID

	d, n := ts.dispatchAndReceive(ask)
	n.done(d, object{"result": object{"text_src": spokenText, "text_tgt": spokenText}}).expectOK()
	n.done(d, object{"result": object{"text_src": spokenText + " again"}}).expectOK()
	n.done(d, object{"attempt_id": 2, "result": object{"text_src": spokenText}}).expectError(wire.StaleAttempt)
	ts.post("/v1/node/model_not_available", object{"node_id": n.id, "service_id": "s", "reason": spokenText}).expectOK()

	// Messages that are not as they should be.
	for _, body := range []string{
		`{"job_id":"` + d.JobID + `","attempt_id":1,"node_id":"` + n.id + `","result":"` + spokenText + `"}`,
		`{"job_id":"` + spokenText + `","attempt_id":1,"node_id":"n"}`,
		`{"result":{"text_src":"` + spokenText + `"`,
		spokenText,
	} {
		ts.request("POST", "/v1/job/done", "application/json", []byte(body)).expectError(wire.InvalidRequest)
	}
	ts.request("POST", "/v1/job/done", "text/plain", []byte(spokenText)).expectError(wire.UnsupportedMediaType)
	ts.get("/v1/jobs?session_id=" + strings.ReplaceAll(spokenText, " ", "%20")).expectError(wire.InvalidRequest)
	ts.get("/v1/jobs/" + spokenWord + "%20" + spokenWord).expectError(wire.InvalidRequest)

	// Deliveries that go wrong in every way.
	for _, wrong := range []http.HandlerFunc{
		func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, spokenText, http.StatusBadRequest) },
		func(rw http.ResponseWriter, _ *http.Request) {
			http.Error(rw, spokenText, http.StatusInternalServerError)
		},
		func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, "/?"+audioKey, http.StatusFound) },
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		a.setAnswer(wrong)
		b.setAnswer(wrong)
		ts.post("/v1/dispatch/f2f", ask) // whatever becomes of it
		ts.nextDelivery()
		ts.discardDeliveries()
	}
	a.srv.Close()
	b.srv.Close()
	ts.post("/v1/dispatch/f2f", ask)

	text := ts.log.String()
	for _, line := range []string{"attempt given up", "job ended without a result", "delivery failed", "slow request", failed} {
		if !strings.Contains(text, line) {
			t.Errorf("the test did not bring about %q: it proves less than it should", line)
		}
	}
	expectNoSecrets(t, "the log", text)
	expectNoSecrets(t, "/metrics", string(ts.get("/metrics").body))
	expectNoSecrets(t, "/v1/nodes", string(ts.get("/v1/nodes").body))
}

// TestNothingANodeAnswersIsLogged has a node answer with something that is not HTTP at all. The error the
// client makes of that quotes it.
func TestNodeAnswerIsNotLogged(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, shortACKTimeout, shortJobTimeout)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = conn.Write([]byte(spokenWord + "\r\n\r\n"))
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-served
	})
	ts.registerNode("n1", object{"callback_url": "http://" + l.Addr().String() + "/jobs?key=" + callbackKey})
	p := ts.post("/v1/dispatch/f2f", dispatchBody(object{"request_id": "req-1"}))
	if !strings.Contains(ts.log.String(), "delivery failed") {
		t.Fatalf("the delivery did not fail: %d %s", p.status, p.body)
	}
	expectNoSecrets(t, "the log", ts.log.String())
}

// quiet wants that a text holds nothing that must not be written down.
func expectNoSecrets(t *testing.T, where, text string) {
	t.Helper()
	for _, secret := range []string{spokenText, spokenWord, audioPath, audioKey, callbackKey, signingKey, signatureTag} {
		if i := strings.Index(text, secret); i >= 0 {
			t.Errorf("%s holds %q: …%s…", where, secret, text[max(0, i-200):min(len(text), i+100)])
		}
	}
}
