package server_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// registerKeyed registers an HTTP node with a key.
func registerKeyed(ts *testScheduler, id, key string) *callbackNode {
	ts.t.Helper()
	n := ts.newNode(id)
	n.key, n.declaration = key, declaration(id, n.callback())
	if n.register(nil); len(n.nodeToken) < 16 {
		ts.t.Fatalf("registered with the node_token %q", n.nodeToken)
	}
	return n
}

func declaration(id, callback string) object {
	return nodeDeclaration(object{"node_id": id, "callback_url": callback})
}

// dispatchKeyed dispatches a job as an operator, and returns its delivery.
func dispatchKeyed(ts *testScheduler) delivery {
	ts.t.Helper()
	var placed wire.DispatchResponse
	ts.requestAs(operatorKey, "POST", "/v1/dispatch/f2f", dispatchBody(nil)).decode(&placed)
	d, _ := ts.nextDelivery()
	return d
}

// TestReportsNeedTheSecretOfTheNode: with one token for all nodes, one node cannot report for another.
func TestReportsNeedTheSecretOfTheNode(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithKeys(t)
	a := registerKeyed(ts, "gpu-1", gpuToken)
	d := dispatchKeyed(ts)
	b := registerKeyed(ts, "gpu-2", gpuToken)
	about := object{"job_id": d.JobID, "attempt_id": d.AttemptID}
	for name, proof := range map[string]object{
		"none": {"node_token": ""}, "another node's": {"node_token": b.nodeToken}, "a guess": {"node_token": "a-guess-of-a-node-token"},
	} {
		for path, body := range map[string]object{
			"/v1/job/ack": about, "/v1/job/done": about.with(object{"status": "ok"}), "/v1/job/fail": about.with(object{"reason": "X"}),
			"/v1/node/heartbeat": {}, "/v1/node/model_not_available": {"service_id": "asr"},
		} {
			if e := a.report(path, body.with(proof)).expectError(wire.Forbidden); e.Field != "node_token" {
				t.Errorf("%s with %s: %+v", path, name, e)
			}
		}
	}
	var beat wire.HeartbeatResponse
	a.report("/v1/node/heartbeat", object{"epoch": a.epoch, "active": activeList(d)}).decode(&beat)
	a.report("/v1/job/ack", about).expectOK()
	a.report("/v1/job/done", about.with(object{"status": "ok", "result": object{"text_tgt": "hola"}})).expectOK()
}

// TestPresentNameNeedsItsSecret: while a node is present nobody else takes its name, or changes its callback_url.
func TestPresentNameNeedsItsSecret(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithKeys(t)
	a := registerKeyed(ts, "gpu-1", gpuToken)
	again := declaration("gpu-1", ts.newNode("elsewhere").callback())
	for _, token := range []string{"", "a-guess-of-a-node-token"} {
		if e := ts.requestAs(gpuToken, "POST", "/v1/node/register", again.with(object{"node_token": token})).expectError(wire.NameInUse); e.RetryAfterMS == 0 {
			t.Errorf("with %q: %+v", token, e)
		}
	}
	var r wire.RegisterResponse
	ts.requestAs(gpuToken, "POST", "/v1/node/register", again.with(object{"node_token": a.nodeToken})).decode(&r)
	if r.NodeToken != a.nodeToken || r.Epoch <= a.epoch {
		t.Errorf("with its own token: %+v, was %+v", r, a)
	}
	for _, token := range []string{"short", fmt.Sprintf("%0129d", 0)} {
		if e := ts.requestAs(gpuToken, "POST", "/v1/node/register", again.with(object{"node_token": token})).expectError(wire.InvalidRequest); e.Field != "node_token" {
			t.Errorf("%+v", e)
		}
	}
}

// TestHeartbeatThatRegistersAnswersTheToken: a node that only sends heartbeats learns its epoch and its secret.
func TestHeartbeatThatRegistersAnswersTheToken(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithKeys(t)
	var r wire.HeartbeatResponse
	ts.requestAs(gpuToken, "POST", "/v1/node/heartbeat", declaration("gpu-9", ts.newNode("gpu-9").callback())).decode(&r)
	if r.Epoch == 0 || r.NodeToken == "" {
		t.Fatalf("%+v", r)
	}
	n := &callbackNode{sched: ts, id: "gpu-9", key: gpuToken, nodeToken: r.NodeToken}
	n.report("/v1/node/heartbeat", object{"epoch": r.Epoch}).decode(&wire.HeartbeatResponse{})
	n.report("/v1/node/heartbeat", object{"node_token": ""}).expectError(wire.Forbidden)
}

// TestSecretIsOptional: where no secret is required the bodies without it are accepted, and a wrong one is not.
func TestSecretIsOptional(t *testing.T) {
	t.Parallel()
	no := false
	for name, ts := range map[string]*testScheduler{
		"without keys":     startScheduler(t),
		"by configuration": startScheduler(t, setKeys, func(c *config.Config) { c.Auth.RequireNodeSecret = &no }),
	} {
		registerKeyed(ts, "gpu-1", gpuToken)
		registerKeyed(ts, "gpu-1", gpuToken)
		var beat wire.HeartbeatResponse
		ts.requestAs(gpuToken, "POST", "/v1/node/heartbeat", object{"node_id": "gpu-1"}).decode(&beat)
		e := ts.requestAs(gpuToken, "POST", "/v1/node/heartbeat", object{"node_id": "gpu-1", "node_token": "a-guess-of-a-node-token"}).expectError(wire.Forbidden)
		if e.Field != "node_token" {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// TestConnectedNodeKeepsItsName: a second connection takes the name of a connected node over only with its resume_token.
func TestConnectedNodeKeepsItsName(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithKeys(t)
	register := object{"type": "node_register", "node_id": "gpu-1", "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 2}
	first := ts.dialAs("/ws/node", gpuToken, false)
	first.send(register)
	ack := first.readUntil("node_register_ack")
	for _, token := range []string{"", "1.a-guess-of-a-resume-token", "a-guess-of-a-resume-token"} {
		second := ts.dialAs("/ws/node", gpuToken, false)
		second.send(register.with(object{"resume_token": token}))
		second.expectClose(wire.NameInUse, wire.CloseNameInUse)
	}
	owner := ts.dialAs("/ws/node", gpuToken, false)
	owner.send(register.with(object{"resume_token": ack["resume_token"]}))
	if again := owner.readUntil("node_register_ack"); again["status"] != "resumed" || again["resume_token"] != ack["resume_token"] {
		t.Errorf("with its token: %v, was %v", again, ack)
	}
	first.expectClose(wire.StaleEpoch, wire.CloseReplaced)
}

// TestNodeChoosesItsSecret: a node that chooses the secret of its first registration may repeat it, if the answer was lost.
func TestNodeChoosesItsSecret(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithKeys(t)
	register := object{"type": "node_register", "node_id": "gpu-1", "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 2, "resume_token": "chosen-by-the-node-itself"}
	for range 2 {
		conn := ts.dialAs("/ws/node", gpuToken, false)
		conn.send(register)
		if ack := conn.readUntil("node_register_ack"); ack["status"] != "registered" {
			t.Errorf("%v", ack)
		}
	}
}

// forger sends reports, heartbeats, registrations, uploads and resumptions in the name of others, with valid keys.
type forger struct {
	ts                        *testScheduler
	random                    *rand.Rand
	victim, attacker, foreign *callbackNode
	connected                 string // the resume_token of the connected node gpu-3
	job                       delivery
	elsewhere                 string // an address of the attacker
	reports, uploads, resumes int
}

func (f *forger) pick(list ...string) string { return list[f.random.IntN(len(list))] }

// forgeReport sends a report, a heartbeat or a registration for the victim, and reports whether it was accepted.
func (f *forger) forgeReport() bool {
	f.reports++
	key := f.pick(gpuToken, acmeToken, "an-unknown-credential")
	token := f.pick("", f.attacker.nodeToken, f.foreign.nodeToken, f.victim.nodeToken+"x", f.victim.nodeToken[1:], "a-guess-of-a-node-token")
	if key == acmeToken {
		token = f.pick(token, f.victim.nodeToken) // even the right secret does not help another tenant
	}
	body := object{
		"node_id": "gpu-1", "node_token": token, "job_id": f.job.JobID, "attempt_id": 1 + f.random.IntN(3), "epoch": f.victim.epoch,
		"status": "ok", "result": object{"text_tgt": "forged"}, "reason": "FORGED", "service_id": "asr",
	}
	path := f.pick("/v1/job/ack", "/v1/job/done", "/v1/job/fail", "/v1/node/heartbeat", "/v1/node/model_not_available", "/v1/node/register")
	if path == "/v1/node/register" || path == "/v1/node/heartbeat" {
		body = declaration("gpu-1", f.elsewhere).with(object{"node_token": token, "max_concurrent_jobs": 0})
	}
	return f.ts.requestAs(key, "POST", path, body).status == http.StatusOK
}

// forgeUpload uploads speech for the victim's job, and reports whether it was accepted.
func (f *forger) forgeUpload() bool {
	f.uploads++
	address, token, _ := strings.Cut(f.job.TTSUpload, "?token=")
	_, readToken, _ := strings.Cut(f.job.AudioRef, "?token=")
	at := f.random.IntN(len(token))
	changed := token[:at] + string('a'+rune(token[at])%26) + token[at+1:]
	if changed == token {
		changed = token + "a"
	}
	switch f.pick("none", "changed", "for reading", "shorter", "of another job") {
	case "none":
		token = ""
	case "changed":
		token = changed
	case "for reading":
		token = readToken
	case "shorter":
		token = token[:at]
	case "of another job":
		address = strings.Replace(address, f.job.JobID, "job-"+strconv.Itoa(at), 1)
	}
	return f.ts.fetchURL("PUT", address+"?token="+token, []byte("forged")).status == http.StatusOK
}

// forgeResumption connects as the node gpu-3, and reports whether that was accepted.
func (f *forger) forgeResumption() bool {
	f.resumes++
	conn := f.ts.dialAs("/ws/node", gpuToken, false)
	defer func() { _ = conn.ws.CloseNow() }()
	token := f.pick("", f.connected+"x", f.connected[:len(f.connected)-1], "1.a-guess-of-a-resume-token", f.attacker.nodeToken)
	conn.send(minimalDeclaration("gpu-3").with(object{"type": "node_register", "resume_token": token}))
	return conn.read()["type"] != "error"
}

var forgeries = flag.Int("forgeries", 500, "how many forged calls TestForgedReports makes")

// TestForgedReports sends reports, heartbeats, registrations, uploads of speech and resumptions that are not the node's, with valid
// keys: none is accepted. In full:
//
//	go test -v -run TestForgedReports ./internal/server -forgeries 10000
func TestForgedReports(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithKeys(t)
	f := &forger{ts: ts, random: rand.New(rand.NewPCG(14, 1)), victim: registerKeyed(ts, "gpu-1", gpuToken), elsewhere: ts.newNode("attacker").callback()}
	s := ts.startSessionAs(ts.mint(operatorKey, "room-1"), object{"langs": []string{"en", "zh"}, "tts": true})
	s.sendUtterance()
	f.job, _ = ts.nextDelivery()
	f.attacker, f.foreign = registerKeyed(ts, "gpu-2", gpuToken), registerKeyed(ts, "acme-1", acmeToken)
	connected := ts.dialAs("/ws/node", gpuToken, false)
	connected.send(minimalDeclaration("gpu-3").with(object{"type": "node_register"}))
	f.connected = connected.readUntil("node_register_ack")["resume_token"].(string)
	reading := connected.ws.CloseRead(t.Context()) // it answers pings, however long the forgeries take
	before := ts.requestAs(operatorKey, "GET", "/v1/nodes/gpu-1", nil).body

	for i := range *forgeries {
		forge := f.forgeReport
		switch i % 10 {
		case 0:
			forge = f.forgeUpload
		case 5:
			forge = f.forgeResumption
		}
		if forge() {
			t.Errorf("forgery %d was accepted", i)
		}
	}
	t.Logf("%d reports, heartbeats and registrations, %d uploads, %d resumptions", f.reports, f.uploads, f.resumes)

	after := ts.requestAs(operatorKey, "GET", "/v1/nodes/gpu-1", nil).body
	if before, after := callbackOf(t, before), callbackOf(t, after); before != after {
		t.Errorf("the node's address was %s and is %s", before, after)
	}
	var job wire.Job
	ts.requestAs(operatorKey, "GET", "/v1/jobs/"+f.job.JobID, nil).decode(&job)
	for _, a := range job.Attempts {
		if a.Reason == "NODE_FAILED" || a.Reason == "MODEL_NOT_AVAILABLE" || job.State == "DONE" {
			t.Errorf("a forged report changed the job: %+v", job)
		}
	}
	if err := connected.ws.Ping(reading); err != nil {
		t.Errorf("the node gpu-3 was closed: %v", err)
	}
}

// callbackOf is the address in the view of a node.
func callbackOf(t *testing.T, view []byte) string {
	t.Helper()
	var n wire.Node
	if err := json.Unmarshal(view, &n); err != nil || n.CallbackURL == "" {
		t.Fatalf("%s: %v", view, err)
	}
	return n.CallbackURL
}

// TestReportNeedsTheCurrentRegistration: nobody reports under a name that is free, and a node that registers a free name does not finish
// the jobs of the node that had it before.
func TestReportNeedsTheCurrentRegistration(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithKeys(t)
	before := registerKeyed(ts, "gpu-1", gpuToken)
	d := dispatchKeyed(ts)
	ts.requestAs(operatorKey, "DELETE", "/v1/nodes/gpu-1", nil).decode(&wire.NodeRemoved{})
	about := object{"job_id": d.JobID, "attempt_id": d.AttemptID, "result": object{"text_tgt": "forged"}}
	for _, token := range []string{"", before.nodeToken} {
		for _, epoch := range []any{nil, before.epoch} {
			ts.eventually("know that the node is gone", func() bool { // a change that was made before may show it once more
				r := before.report("/v1/job/done", about.with(object{"node_token": token, "epoch": epoch}))
				if r.status == http.StatusOK {
					t.Fatalf("the report was taken: %s", r.body)
				}
				return r.status == http.StatusNotFound
			})
		}
	}
	next := &callbackNode{sched: ts, id: "gpu-1", key: gpuToken}
	var r wire.RegisterResponse
	ts.requestAs(gpuToken, "POST", "/v1/node/register", declaration("gpu-1", before.callback()).with(object{"max_concurrent_jobs": 0})).decode(&r)
	next.nodeToken = r.NodeToken
	for _, epoch := range []any{nil, before.epoch} {
		next.report("/v1/job/done", about.with(object{"epoch": epoch})).expectError(wire.StaleEpoch)
	}
	var job wire.Job
	ts.requestAs(operatorKey, "GET", "/v1/jobs/"+d.JobID, nil).decode(&job)
	if job.State == "DONE" {
		t.Errorf("a forged report ended the job: %+v", job)
	}
}

// TestJobsOfOtherTenantsAreUnknown: a node is told the same about a job of another tenant as about one that does not exist.
func TestJobsOfOtherTenantsAreUnknown(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	m := newMatrixObjects(ts)
	acme := m.nodes["acme"]
	for _, path := range []string{"/v1/job/ack", "/v1/job/done", "/v1/job/fail"} {
		for attempt := 1; attempt <= 2; attempt++ {
			about := object{"attempt_id": attempt, "status": "ok", "reason": "X"}
			foreign := acme.report(path, about.with(object{"job_id": m.jobs["beta"].JobID})).expectError(wire.NotFound)
			unknown := acme.report(path, about.with(object{"job_id": "job-unknown"})).expectError(wire.NotFound)
			if strings.ReplaceAll(foreign.Detail, m.jobs["beta"].JobID, "X") != strings.ReplaceAll(unknown.Detail, "job-unknown", "X") || foreign.Field != unknown.Field {
				t.Errorf("%s: %+v about a job of another tenant, %+v about an unknown one", path, foreign, unknown)
			}
		}
	}
}
