package server_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// Secrets that must not be logged: texts of utterances, where their audio is, and keys.
const (
	spokenText   = "meet me at the old harbour"
	spokenWord   = "harbour"
	audioPath    = "recordings-of-room-888"
	audioKey     = "audio-key-4711"
	callbackKey  = "callback-key-4712"
	signingKey   = "signing-key-4713"
	signatureTag = "v1="
)

// shortTimeouts sets short timeouts of acknowledgements, attempts and jobs, for deliveries of which any outcome will do.
func shortTimeouts(c *config.Config) {
	d := &c.Scheduler.Dispatch
	d.ACKTimeoutMS, d.AttemptTimeoutMS, d.JobTimeoutMS = 500, 1000, 1500
}

// TestSecretsAreNotLogged causes everything that is logged, at debug level, and checks that no secret is in the log.
func TestSecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	logged := func(c *config.Config) {
		c.Callback.Secret = signingKey
		c.Scheduler.Observability.PathWarnMS = 0 // every request is logged
	}
	ts := startScheduler(t, logged)
	keyed := func(ts *testScheduler, id string) *callbackNode {
		// A delivery with an unknown outcome keeps its slot; there are many below.
		n := ts.registerNode(id, object{"callback_url": nil, "max_concurrent_jobs": 100})
		n.declaration["callback_url"] = n.srv.URL + "/jobs?key=" + callbackKey
		n.register(nil)
		return n
	}
	ask := dispatchBody(object{"audio_ref": "https://store/" + audioPath + "/1.wav?sig=" + audioKey})
	keyed(ts, "a")
	keyed(ts, "b")

	d, first := ts.dispatchAndReceive(ask)
	if d.AudioRef != ask["audio_ref"] || d.query != "key="+callbackKey {
		t.Fatalf("the delivery lacks something: %+v?%s", d.Assignment, d.query)
	}
	first.ack(d, nil).expectOK()
	first.fail(d, object{"reason": "could not translate: " + spokenText}).expectOK()
	d, second := ts.nextDelivery()
	expectNoSecrets(t, "a job that is retried after a reason in prose", string(ts.get("/v1/jobs/"+d.JobID).body))
	second.done(d, object{"status": "error", "reason": spokenText}).expectOK()
	d, _ = ts.nextDelivery() // the last attempt, which would otherwise be delivered during what follows
	ts.cancelJob(d.JobID)
	failed := d.JobID

	d, n := ts.dispatchAndReceive(ask)
	n.done(d, object{"result": object{"text_src": spokenText, "text_tgt": spokenText}}).expectOK()
	n.done(d, object{"result": object{"text_src": spokenText + " again"}}).expectOK()
	n.done(d, object{"attempt_id": 2, "result": object{"text_src": spokenText}}).expectError(wire.StaleAttempt)
	ts.post("/v1/node/model_not_available", object{"node_id": n.id, "service_id": "s", "reason": spokenText}).expectOK()

	// Invalid messages.
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

	// Deliveries that fail in every way.
	failing := startScheduler(t, logged, shortTimeouts)
	a, b := keyed(failing, "a"), keyed(failing, "b")
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
		failing.post("/v1/dispatch/f2f", ask) // with any outcome
		failing.nextDelivery()
		failing.discardDeliveries()
	}
	for _, n := range []*callbackNode{a, b} {
		n.register(object{"callback_url": "http://127.0.0.1:1/jobs?key=" + callbackKey}) // where nothing listens
	}
	failing.post("/v1/dispatch/f2f", ask)

	text := ts.log.String() + failing.log.String()
	for _, line := range []string{"attempt given up", "job ended without a result", "delivery failed", "slow request", failed} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is not in the log: the test does not cover it", line)
		}
	}
	expectNoSecrets(t, "the log", text)
	for _, one := range []*testScheduler{ts, failing} {
		expectNoSecrets(t, "/metrics", string(one.get("/metrics").body))
		expectNoSecrets(t, "/v1/nodes", string(one.get("/v1/nodes").body))
	}
}

// TestNodeAnswerIsNotLogged: a node answers with something that is not HTTP; the error of the HTTP client quotes it, and must not
// be logged.
func TestNodeAnswerIsNotLogged(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, shortTimeouts)
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

// expectNoSecrets wants a text to contain no secret.
func expectNoSecrets(t *testing.T, where, text string) {
	t.Helper()
	expectNone(t, where, text, []string{spokenText, spokenWord, audioPath, audioKey, callbackKey, signingKey, signatureTag})
}

// expectNone wants a text to contain none of these secrets.
func expectNone(t *testing.T, where, text string, secrets []string) {
	t.Helper()
	for _, secret := range secrets {
		if i := strings.Index(text, secret); i >= 0 {
			t.Errorf("%s holds %q: …%s…", where, secret, text[max(0, i-200):min(len(text), i+100)])
		}
	}
}

// TestConversationIsNotDisclosed runs a whole conversation with every kind of credential, and with wrong ones, at debug level. Neither
// what was said nor a credential is in the log, in the metrics, in a list or in an error.
func TestConversationIsNotDisclosed(t *testing.T) {
	t.Parallel()
	const wrong, chosen = "wrong-credential-4715", "resume-token-chosen-by-the-client-4716"
	ts := startSchedulerWithNamedKeys(t, func(c *config.Config) {
		c.Scheduler.Observability.PathWarnMS = 0 // every request is logged
	})
	secrets := []string{spokenText, spokenWord, wrong, chosen, alice, bob, viewer, acmeView, acmeMint, zetaMint, acmeGPU, sharedGP}
	n := ts.dialAs("/ws/node", acmeGPU, false)
	n.send(minimalDeclaration("acme-1").with(object{"type": "node_register", "tts_langs": []string{"en", "es"}}))
	secrets = append(secrets, n.readUntil("node_register_ack")["resume_token"].(string))
	polled := registerKeyed(ts, "shared-1", sharedGP)
	token := ts.mint(acmeMint, "room-1")
	secrets = append(secrets, polled.nodeToken, token)

	s := ts.startSessionAs(token, object{"resume_token": chosen, "tts": true, "partials": true})
	s.sendUtterance()
	about := object{"job_id": n.readUntil("job_assign")["job_id"], "attempt_id": 1}
	n.send(about.with(object{"type": "job_ack"}))
	n.send(about.with(object{"type": "job_partial", "rev": 1, "text_src": spokenText}))
	s.readUntil("partial")
	n.send(about.with(object{"type": "job_result", "result": object{"text_src": spokenText, "text_tgt": spokenText}, "tts": true}))
	s.readUntil("result")
	h := wire.BinaryHeader{Kind: wire.KindTTS, ActiveJob: wire.ActiveJob{JobID: about["job_id"].(string), AttemptID: 1}, Last: true}
	speech, err := wire.AppendBinary(nil, &h, []byte(spokenText))
	if err != nil {
		t.Fatal(err)
	}
	n.sendBinary(speech)
	s.readUntil("binary")
	n.sendBinary(speech) // once more, which is an error
	errors := []any{n.readUntil("error")}

	s.sendUtterance()
	about["job_id"] = n.readUntil("job_assign")["job_id"]
	n.send(about.with(object{"type": "job_fail", "reason": spokenText}))
	n.readUntil("job_result_ack")
	for _, update := range []object{{"token": wrong}, {"token": token + "x"}, {"token": acmeMint}, {"src_lang": "no language"}} {
		s.send(update.with(object{"type": "session_update"}))
		errors = append(errors, s.readUntil("error"))
	}
	for _, first := range []object{
		{"type": "session_resume", "session_id": "room-1", "resume_token": wrong, "last_seq": 0},
		{"type": "session_start", "langs": []string{"en", "es"}, "session_id": "room-2"},
	} {
		other := ts.dialAs("/ws/session", token, true)
		other.send(first)
		errors = append(errors, other.readUntil("error"))
	}
	for _, credential := range []string{wrong, token + "x", "e30." + wrong + ".x", token} {
		errors = append(errors, string(ts.requestAs(credential, "GET", "/v1/nodes?token="+wrong, nil).body))
	}
	report := object{"job_id": about["job_id"], "attempt_id": 1, "status": "ok", "result": object{"text_tgt": spokenText}}
	errors = append(errors, string(polled.report("/v1/job/done", report).body), string(polled.report("/v1/job/done", report.with(object{"node_token": wrong})).body))
	ts.requestAs(acmeMint, "DELETE", "/v1/sessions/room-1", nil).decode(&wire.SessionTerminated{})
	ts.revoke(object{"key": "acme-gpu"})

	for _, path := range []string{
		"/metrics", "/v1/audit?limit=1000", "/v1/events", "/v1/dlq", "/v1/auth/revocations", "/v1/sessions", "/v1/nodes", "/v1/instances", "/v1/directions", "/api/v1/stats", "/api/v1/phase3/pools",
	} {
		expectNone(t, path, string(ts.requestAs(alice, "GET", path, nil).body), secrets)
	}
	expectNone(t, "/v1/jobs for a viewer", string(ts.requestAs(viewer, "GET", "/v1/jobs", nil).body), secrets)
	expectNone(t, "a job for a viewer", string(ts.requestAs(viewer, "GET", "/v1/jobs/"+h.JobID, nil).body), secrets)
	expectNone(t, "the errors", fmt.Sprint(errors...), secrets)
	text := ts.log.String()
	if failed := about["job_id"].(string); !strings.Contains(text, failed) || !strings.Contains(text, "slow request") {
		t.Error("the failed job and the requests are not in the log: the test does not cover it")
	}
	expectNone(t, "the log", text, secrets)
}
