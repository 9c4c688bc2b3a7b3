package server_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestJobLifecycle: one job through every message of the contract.
func TestJobLifecycle(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("node-123", nil)

	d, _ := ts.dispatchAndReceive(dispatchBody(object{"audio_ref": "blob://utterance/1", "request_id": "req-1"}))
	if s := ts.getJob(d.JobID).State; s != "DISPATCHED" {
		t.Errorf("delivered: want DISPATCHED, got %s", s)
	}
	n.ack(d, object{"epoch": n.epoch}).expectOK()
	if s := ts.getJob(d.JobID).State; s != "ACKED" {
		t.Errorf("acknowledged: want ACKED, got %s", s)
	}
	result := object{"text_src": "good morning", "text_tgt": "早上好"}
	n.done(d, object{"epoch": n.epoch, "result": result}).expectOK()

	var got object
	ts.get("/v1/jobs/" + d.JobID).decode(&got)
	fields := slices.Sorted(maps.Keys(got))
	want := []string{
		"attempt_id", "attempts", "created_ms", "deadline_ms", "job_id", "node_id", "request_id", "result",
		"session_id", "src_lang", "state", "tgt_lang", "updated_ms",
	}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("the fields of a done job: (-want +got)\n%s", diff)
	}
	j := ts.getJob(d.JobID)
	if diff := cmp.Diff(wire.Job{
		JobID: d.JobID, RequestID: "req-1", SessionID: "room-888", SrcLang: "en", TgtLang: "zh", State: "DONE",
		NodeID: "node-123", AttemptID: 1, Result: j.Result, CreatedMS: j.CreatedMS, UpdatedMS: j.UpdatedMS, DeadlineMS: j.DeadlineMS,
		Attempts: []wire.Attempt{{AttemptID: 1, NodeID: "node-123", StartedMS: j.CreatedMS, EndedMS: j.UpdatedMS}},
	}, j); diff != "" {
		t.Errorf("the job: (-want +got)\n%s", diff)
	}
	var gotResult object
	if err := json.Unmarshal(j.Result, &gotResult); err != nil || !cmp.Equal(gotResult, result) {
		t.Errorf("the result: want %v, got %s", result, j.Result)
	}
	ts.awaitFree("node-123")
}

// TestDeliveryBody: the body of a delivery is exactly as in the contract.
func TestDeliveryBody(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", object{"installed_models": []string{"m"}, "features": []string{"f"}, "region": "eu",
		"installed_services": []object{{"service_id": "s", "status": "ready"}}})
	options := object{"require_tts": true, "required_services": []string{"s"}, "required_models": []string{"m"}, "features": []string{"f"}, "region": "eu"}
	before := time.Now()
	d, _ := ts.dispatchAndReceive(dispatchBody(object{"audio_ref": "blob://u/1?sig=abc", "options": options}))

	if got := d.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("content type: %q", got)
	}
	if got := d.header.Get(wire.SignatureHeader); got != "" {
		t.Errorf("signed without a secret: %q", got)
	}
	var got object
	if err := json.Unmarshal(d.body, &got); err != nil {
		t.Fatal(err)
	}
	// The two times are not known beforehand, and are checked below.
	deadline, timeout := got["deadline_ms"], got["timeout_ms"]
	want := viaJSON(t, object{
		"job_id": d.JobID, "attempt_id": 1, "node_id": "n1", "session_id": "room-888", "src_lang": "en", "tgt_lang": "zh",
		"audio_ref": "blob://u/1?sig=abc", "options": options, "deadline_ms": deadline,
		// beyond the contract: for fencing, and for nodes that keep time by their own clock
		"epoch": n.epoch, "timeout_ms": timeout,
	})
	if diff := cmp.Diff(want, viaJSON(t, got)); diff != "" {
		t.Errorf("the delivery: (-want +got)\n%s", diff)
	}
	attempt := 15 * time.Second
	if ends := time.UnixMilli(d.DeadlineMS); ends.Before(before.Add(attempt-time.Second)) || ends.After(time.Now().Add(attempt)) {
		t.Errorf("deadline_ms is %s from now, want about %s", time.Until(ends), attempt)
	}
	if left := time.Duration(d.TimeoutMS) * time.Millisecond; left > attempt || left < attempt-time.Since(before)-time.Millisecond {
		t.Errorf("timeout_ms is %s, want about %s", left, attempt)
	}
}

// viaJSON converts a value to JSON and back, so that numbers compare whatever their Go type.
func viaJSON(t *testing.T, v any) any {
	t.Helper()
	var out any
	if err := json.Unmarshal(encode(t, v), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestLanguageTagsAreNormalised: other spellings of a node's languages match.
func TestLanguageTagsAreNormalised(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", nil)
	d, _ := ts.dispatchAndReceive(dispatchBody(object{"src_lang": "en-GB", "tgt_lang": "cmn-Hans"}))
	if got := spaced(d.SrcLang, d.TgtLang); got != "en-GB zh" {
		t.Errorf("languages as delivered: %s", got)
	}
}

// TestResultBeforeAck: /done may arrive before /ack.
func TestResultBeforeAck(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", nil)
	d, _ := ts.dispatchAndReceive(dispatchBody(nil))
	n.done(d, object{"status": nil}).expectOK() // status is ok by default
	n.ack(d, nil).expectOK()
	if j := ts.getJob(d.JobID); j.State != "DONE" || j.Result != nil {
		t.Errorf("want DONE without a result, got %s %s", j.State, j.Result)
	}
}

var generatedNodeID = regexp.MustCompile(`^node-[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// TestRegisterAnswers: a registration answers with the epoch, and with a generated name if the node has none.
func TestRegisterAnswers(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)

	var given wire.RegisterResponse
	ts.post("/v1/node/register", nodeDeclaration(object{"node_id": "node-123", "callback_url": ts.newNode("node-123").srv.URL})).decode(&given)
	if diff := cmp.Diff(wire.RegisterResponse{OK: true, NodeID: "node-123", Epoch: given.Epoch, NodeToken: given.NodeToken, HeartbeatIntervalMS: 5000}, given); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if given.Epoch <= 0 || len(given.NodeToken) < 16 {
		t.Errorf("epoch %d, node_token %q", given.Epoch, given.NodeToken)
	}

	var made, again wire.RegisterResponse
	ts.post("/v1/node/register", nodeDeclaration(nil)).decode(&made)
	if !generatedNodeID.MatchString(made.NodeID) {
		t.Errorf("a generated name must be node-<uuidv7>, not %s", made.NodeID)
	}
	ts.post("/v1/node/register", nodeDeclaration(nil)).decode(&again)
	if again.NodeID == made.NodeID {
		t.Errorf("two nodes have the same name, %s", made.NodeID)
	}

	ts.post("/v1/node/register", nodeDeclaration(object{"node_id": "node-123"})).decode(&again)
	if again.Epoch <= given.Epoch {
		t.Errorf("the new epoch is %d, the one before was %d", again.Epoch, given.Epoch)
	}
}

// cancelJob is POST /v1/jobs/{id}/cancel.
func (ts *testScheduler) cancelJob(id string) wire.CancelResponse {
	ts.t.Helper()
	var c wire.CancelResponse
	ts.request("POST", "/v1/jobs/"+id+"/cancel", "", nil).decode(&c)
	return c
}

// TestCancelKeepsSlotUntilNodeStops: a cancelled job ends at once, and its slot is kept until the node has stopped it.
func TestCancelKeepsSlotUntilNodeStops(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", object{"max_concurrent_jobs": 1})
	d, _ := ts.dispatchAndReceive(dispatchBody(nil))
	n.ack(d, nil).expectOK()

	c := ts.cancelJob(d.JobID)
	if !c.OK || !c.Cancelled || c.Job.State != "CANCELLED" || c.Job.Reason != "CANCELLED" {
		t.Errorf("the answer: %+v", c)
	}
	if diff := cmp.Diff(c, ts.cancelJob(d.JobID)); diff != "" {
		t.Errorf("cancelled again: (-first +second)\n%s", diff)
	}
	if diff := cmp.Diff(c.Job, ts.getJob(d.JobID)); diff != "" {
		t.Errorf("(-answer +job)\n%s", diff)
	}

	stop := []wire.ActiveJob{{JobID: d.JobID, AttemptID: 1}}
	for range 2 {
		if s := ts.getNode("n1"); s.EffectiveLoad != 1 {
			t.Errorf("the node still has the job: %+v", s)
		}
		ts.post("/v1/dispatch/f2f", dispatchBody(nil)).expectError(wire.AllCandidatesFullOrFailed)
		if diff := cmp.Diff(stop, n.heartbeat(object{"active": activeList(d)}).Cancel); diff != "" {
			t.Errorf("jobs to cancel: (-want +got)\n%s", diff)
		}
	}
	n.heartbeat(object{"active": activeList()})
	if s := ts.getNode("n1"); s.EffectiveLoad != 0 {
		t.Errorf("the node has stopped: %+v", s)
	}
	ts.dispatchAndReceive(dispatchBody(nil))
	n.done(d, nil).expectError(wire.StaleAttempt)
	expectAttempts(t, ts.getJob(d.JobID), wire.Attempt{AttemptID: 1, NodeID: "n1", Reason: "CANCELLED"})
}

// TestLateResultOfCancelledJob: the result is refused and changes nothing, but releases the slot.
func TestLateResultOfCancelledJob(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", nil)
	d, _ := ts.dispatchAndReceive(dispatchBody(nil))
	n.ack(d, nil).expectOK()
	c := ts.cancelJob(d.JobID)
	n.done(d, object{"result": object{"text_tgt": "too late"}}).expectError(wire.StaleAttempt)
	if diff := cmp.Diff(c.Job, ts.getJob(d.JobID)); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
	ts.awaitFree("n1")
}

// TestCancelOfEndedJob: the answer has the outcome of the job, and cancelled is false.
func TestCancelOfEndedJob(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", nil)
	d, _ := ts.dispatchAndReceive(dispatchBody(nil))
	n.done(d, nil).expectOK()
	if c := ts.cancelJob(d.JobID); !c.OK || c.Cancelled || c.Job.State != "DONE" {
		t.Errorf("the answer: %+v", c)
	}
}

// TestCancelOfWaitingJob: a job that waits for another node is cancelled at once.
func TestCancelOfWaitingJob(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", nil)
	ts.registerNode("n2", object{"health": "degraded"}) // the job waits for this one: it is not given to n1 again
	d, _ := ts.dispatchAndReceive(dispatchBody(nil))
	n.fail(d, object{"reason": "MODEL_NOT_AVAILABLE"}).expectOK()
	if c := ts.cancelJob(d.JobID); !c.Cancelled {
		t.Errorf("the answer: %+v", c)
	}
	ts.awaitFree("n1")
	ts.eventually("nothing is in flight", func() bool { return ts.scheduler.Jobs.InFlight() == 0 })
	ts.expectNoDelivery()
}

// TestDeliverySignature verifies the signature of a delivery as in the contract: the HMAC-SHA256, with the shared secret, of the
// time, a dot and the body.
func TestDeliverySignature(t *testing.T) {
	t.Parallel()
	const secret = "shared between the scheduler and its nodes"
	ts := startScheduler(t, func(c *config.Config) { c.Callback.Secret = secret })
	ts.registerNode("n1", nil)
	d, _ := ts.dispatchAndReceive(dispatchBody(nil))

	header := d.header.Get(wire.SignatureHeader)
	at, sum, ok := strings.Cut(header, ",v1=")
	at, ok2 := strings.CutPrefix(at, "t=")
	if !ok || !ok2 {
		t.Fatalf("want t=<unix>,v1=<hex>, got %q", header)
	}
	unix, err := strconv.ParseInt(at, 10, 64)
	if err != nil || time.Since(time.Unix(unix, 0)).Abs() > time.Minute {
		t.Errorf("the time of the signature is %q", at)
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(at + "." + string(d.body)))
	if want := hex.EncodeToString(mac.Sum(nil)); sum != want {
		t.Errorf("want %s, got %s", want, sum)
	}
}
