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
	spoken       = "meet me at the old harbour"
	spokenWord   = "harbour"
	audioPath    = "recordings-of-room-888"
	audioKey     = "audio-key-4711"
	callbackKey  = "callback-key-4712"
	signingKey   = "signing-key-4713"
	signatureTag = "v1="
)

// hasty gives a job up soon that nobody takes.
func hasty(c *config.Config) {
	c.Scheduler.Dispatch.AttemptTimeoutMS, c.Scheduler.Dispatch.JobTimeoutMS = 1000, 1500
}

// TestNothingSaidIsLogged lives through everything that is worth a line in the log, at the level that logs
// most, and looks for what must not be there.
func TestNothingSaidIsLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brief, hasty, func(c *config.Config) {
		c.Callback.Secret = signingKey
		c.Scheduler.Observability.PathWarnMS = 0 // every request is worth a line
	})
	keyed := func(id string) *node {
		// A delivery of which nobody knows whether it arrived keeps its slot; there are many below.
		n := w.node(id, obj{"callback_url": nil, "max_concurrent_jobs": 100})
		n.said["callback_url"] = n.srv.URL + "/jobs?key=" + callbackKey
		n.register(nil)
		return n
	}
	ask := utterance(obj{"audio_ref": "https://store/" + audioPath + "/1.wav?sig=" + audioKey})
	a, b := keyed("a"), keyed("b")

	d, first := w.begin(ask)
	if d.AudioRef != ask["audio_ref"] || d.query != "key="+callbackKey {
		t.Fatalf("the node should have been given what it needs: %+v?%s", d.Assignment, d.query)
	}
	first.ack(d, nil).ok()
	first.fail(d, obj{"reason": "could not translate: " + spoken}).ok()
	d, second := w.next()
	quiet(t, "a job that goes on after prose", string(w.get("/v1/jobs/"+d.JobID).body))
	second.done(d, obj{"status": "error", "reason": spoken}).ok()
	d, _ = w.next() // the last attempt, or it would be delivered in the midst of what follows
	w.cancel(d.JobID)
	failed := d.JobID

	d, n := w.begin(ask)
	n.done(d, obj{"result": obj{"text_src": spoken, "text_tgt": spoken}}).ok()
	n.done(d, obj{"result": obj{"text_src": spoken + " again"}}).ok()
	n.done(d, obj{"attempt_id": 2, "result": obj{"text_src": spoken}}).refused(wire.StaleAttempt)
	w.post("/v1/node/model_not_available", obj{"node_id": n.id, "service_id": "s", "reason": spoken}).ok()

	// Messages that are not as they should be.
	for _, body := range []string{
		`{"job_id":"` + d.JobID + `","attempt_id":1,"node_id":"` + n.id + `","result":"` + spoken + `"}`,
		`{"job_id":"` + spoken + `","attempt_id":1,"node_id":"n"}`,
		`{"result":{"text_src":"` + spoken + `"`,
		spoken,
	} {
		w.ask("POST", "/v1/job/done", "application/json", []byte(body)).refused(wire.InvalidRequest)
	}
	w.ask("POST", "/v1/job/done", "text/plain", []byte(spoken)).refused(wire.UnsupportedMediaType)
	w.get("/v1/jobs?session_id=" + strings.ReplaceAll(spoken, " ", "%20")).refused(wire.InvalidRequest)
	w.get("/v1/jobs/" + spokenWord + "%20" + spokenWord).refused(wire.InvalidRequest)

	// Deliveries that go wrong in every way.
	for _, wrong := range []http.HandlerFunc{
		func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, spoken, http.StatusBadRequest) },
		func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, spoken, http.StatusInternalServerError) },
		func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, "/?"+audioKey, http.StatusFound) },
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		a.answers(wrong)
		b.answers(wrong)
		w.post("/v1/dispatch/f2f", ask) // whatever becomes of it
		w.next()
		w.drain()
	}
	a.srv.Close()
	b.srv.Close()
	w.post("/v1/dispatch/f2f", ask)

	text := w.log.String()
	for _, line := range []string{"attempt given up", "job ended without a result", "delivery failed", "slow request", failed} {
		if !strings.Contains(text, line) {
			t.Errorf("the test did not bring about %q: it proves less than it should", line)
		}
	}
	quiet(t, "the log", text)
	quiet(t, "/metrics", string(w.get("/metrics").body))
	quiet(t, "/v1/nodes", string(w.get("/v1/nodes").body))
}

// TestNothingANodeAnswersIsLogged has a node answer with something that is not HTTP at all. The error the
// client makes of that quotes it.
func TestNothingANodeAnswersIsLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brief, hasty)
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
	w.node("n1", obj{"callback_url": "http://" + l.Addr().String() + "/jobs?key=" + callbackKey})
	p := w.post("/v1/dispatch/f2f", utterance(obj{"request_id": "req-1"}))
	if !strings.Contains(w.log.String(), "delivery failed") {
		t.Fatalf("the delivery did not fail: %d %s", p.status, p.body)
	}
	quiet(t, "the log", w.log.String())
}

// quiet wants that a text holds nothing that must not be written down.
func quiet(t *testing.T, where, text string) {
	t.Helper()
	for _, secret := range []string{spoken, spokenWord, audioPath, audioKey, callbackKey, signingKey, signatureTag} {
		if i := strings.Index(text, secret); i >= 0 {
			t.Errorf("%s holds %q: …%s…", where, secret, text[max(0, i-200):min(len(text), i+100)])
		}
	}
}
