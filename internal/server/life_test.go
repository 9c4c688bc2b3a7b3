package server_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestLife follows one utterance through every message of the contract.
func TestLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("node-123", nil)

	d, _ := w.begin(utterance(obj{"audio_ref": "blob://utterance/1", "request_id": "req-1"}))
	if s := w.job(d.JobID).State; s != "DISPATCHED" {
		t.Errorf("delivered: want DISPATCHED, got %s", s)
	}
	n.ack(d, obj{"epoch": n.epoch}).ok()
	if s := w.job(d.JobID).State; s != "ACKED" {
		t.Errorf("confirmed: want ACKED, got %s", s)
	}
	result := obj{"text_src": "good morning", "text_tgt": "早上好"}
	n.done(d, obj{"epoch": n.epoch, "result": result}).ok()

	var got obj
	w.get("/v1/jobs/" + d.JobID).into(&got)
	fields := slices.Sorted(maps.Keys(got))
	want := []string{
		"attempt_id", "attempts", "created_ms", "deadline_ms", "job_id", "node_id", "request_id", "result",
		"session_id", "src_lang", "state", "tgt_lang", "updated_ms",
	}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("the fields of a done job: (-want +got)\n%s", diff)
	}
	j := w.job(d.JobID)
	if diff := cmp.Diff(wire.Job{
		JobID: d.JobID, RequestID: "req-1", SessionID: "room-888", SrcLang: "en", TgtLang: "zh", State: "DONE",
		NodeID: "node-123", AttemptID: 1, Result: j.Result, CreatedMS: j.CreatedMS, UpdatedMS: j.UpdatedMS, DeadlineMS: j.DeadlineMS,
		Attempts: []wire.Attempt{{AttemptID: 1, NodeID: "node-123", StartedMS: j.CreatedMS, EndedMS: j.UpdatedMS}},
	}, j); diff != "" {
		t.Errorf("the job: (-want +got)\n%s", diff)
	}
	var said obj
	if err := json.Unmarshal(j.Result, &said); err != nil || !cmp.Equal(said, result) {
		t.Errorf("the result: want %v, got %s", result, j.Result)
	}
	if s := w.status("node-123"); s.EffectiveLoad != 0 {
		t.Errorf("the slot is still taken: %+v", s)
	}
}

// TestDelivery holds what a node receives against the contract, to the letter.
func TestDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", obj{"installed_models": []string{"m"}, "features": []string{"f"}, "region": "eu",
		"installed_services": []obj{{"service_id": "s", "status": "ready"}}})
	options := obj{"require_tts": true, "required_services": []string{"s"}, "required_models": []string{"m"}, "features": []string{"f"}, "region": "eu"}
	before := time.Now()
	d, _ := w.begin(utterance(obj{"audio_ref": "blob://u/1?sig=abc", "options": options}))

	if got := d.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("content type: %q", got)
	}
	if got := d.header.Get(wire.SignatureHeader); got != "" {
		t.Errorf("signed without a secret: %q", got)
	}
	var got obj
	if err := json.Unmarshal(d.body, &got); err != nil {
		t.Fatal(err)
	}
	// Two moments are not known beforehand; they are checked by what they mean.
	deadline, timeout := got["deadline_ms"], got["timeout_ms"]
	want := decoded(t, obj{
		"job_id": d.JobID, "attempt_id": 1, "node_id": "n1", "session_id": "room-888", "src_lang": "en", "tgt_lang": "zh",
		"audio_ref": "blob://u/1?sig=abc", "options": options, "deadline_ms": deadline,
		// beyond the contract: what the node needs to be fenced and to keep time by its own clock
		"epoch": n.epoch, "timeout_ms": timeout,
	})
	if diff := cmp.Diff(want, decoded(t, got)); diff != "" {
		t.Errorf("the delivery: (-want +got)\n%s", diff)
	}
	attempt := 15 * time.Second
	if ends := time.UnixMilli(d.DeadlineMS); ends.Before(before.Add(attempt-time.Second)) || ends.After(time.Now().Add(attempt)) {
		t.Errorf("deadline_ms is %s from now, want about %s", time.Until(ends), attempt)
	}
	if left := time.Duration(d.TimeoutMS) * time.Millisecond; left > attempt || left < attempt-time.Second {
		t.Errorf("timeout_ms is %s, want about %s", left, attempt)
	}
}

// decoded is a value as JSON has it, so that numbers compare whatever Go type they had.
func decoded(t *testing.T, v any) any {
	t.Helper()
	var out any
	if err := json.Unmarshal(encode(t, v), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestLanguagesMeet sends other spellings of the languages a node declares.
func TestLanguagesMeet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node("n1", nil)
	d, _ := w.begin(utterance(obj{"src_lang": "en-GB", "tgt_lang": "cmn-Hans"}))
	if got := names(d.SrcLang, d.TgtLang); got != "en-GB zh" {
		t.Errorf("languages as delivered: %s", got)
	}
}

// TestResultMayOvertakeItsAck lets /done arrive before /ack.
func TestResultMayOvertakeItsAck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", nil)
	d, _ := w.begin(utterance(nil))
	n.done(d, obj{"status": nil}).ok() // status is ok unless it says otherwise
	n.ack(d, nil).ok()
	if j := w.job(d.JobID); j.State != "DONE" || j.Result != nil {
		t.Errorf("want DONE without a result, got %s %s", j.State, j.Result)
	}
}

var madeNode = regexp.MustCompile(`^node-[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// TestRegister looks at the answers to registrations.
func TestRegister(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	var given wire.RegisterResponse
	w.post("/v1/node/register", capable(obj{"node_id": "node-123", "callback_url": w.stranger("node-123").srv.URL})).into(&given)
	if diff := cmp.Diff(wire.RegisterResponse{OK: true, NodeID: "node-123", Epoch: given.Epoch, HeartbeatIntervalMS: 5000}, given); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if given.Epoch <= 0 {
		t.Errorf("epoch %d", given.Epoch)
	}

	var made, again wire.RegisterResponse
	w.post("/v1/node/register", capable(nil)).into(&made)
	if !madeNode.MatchString(made.NodeID) {
		t.Errorf("a made name should be node-<uuidv7>, not %s", made.NodeID)
	}
	w.post("/v1/node/register", capable(nil)).into(&again)
	if again.NodeID == made.NodeID {
		t.Errorf("two nodes were given one name, %s", made.NodeID)
	}

	w.post("/v1/node/register", capable(obj{"node_id": "node-123"})).into(&again)
	if again.Epoch <= given.Epoch {
		t.Errorf("a new life has epoch %d, the one before had %d", again.Epoch, given.Epoch)
	}
}
