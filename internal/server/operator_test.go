package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// awaitDeadLetters waits until there are this many dead letters.
func awaitDeadLetters(ts *testScheduler, count int) []wire.DeadLetter {
	ts.t.Helper()
	var list wire.DeadLetterList
	ts.eventually("the number of dead letters is as expected", func() bool {
		ts.get("/v1/dlq").decode(&list)
		return len(list.DeadLetters) == count
	})
	return list.DeadLetters
}

// TestDeadLetters: dead letters are listed, shown, replayed and purged.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	awaitDeadLetters(ts, 0)
	var instances wire.InstanceList
	ts.get("/v1/instances").decode(&instances)
	if len(instances.Instances) != 1 || !instances.Instances[0].This || !instances.Instances[0].Present || instances.Instances[0].AdvertiseURL != ts.url {
		t.Fatalf("%+v", instances)
	}
	for _, body := range []string{"no JSON", `{"kind":"unknown kind","from":"i-9"}`} {
		if _, err := ts.scheduler.Store.Post(t.Context(), store.PostParams{To: ts.scheduler.Bus.Instance(), Body: []byte(body), MaxMessages: 10}); err != nil {
			t.Fatal(err)
		}
	}
	dead := awaitDeadLetters(ts, 2)
	for i, d := range dead {
		if d.Reason != "NOT_UNDERSTOOD" || d.Incarnation != instances.Instances[0].Incarnation || d.Body != nil || d.Text != "" || d.Bytes == 0 {
			t.Errorf("%d: %+v", i, d)
		}
	}
	var one wire.DeadLetterList
	ts.get("/v1/dlq?id=" + dead[0].ID).decode(&one)
	if len(one.DeadLetters) != 1 || one.DeadLetters[0].Text != "no JSON" {
		t.Errorf("%+v", one)
	}
	ts.get("/v1/dlq?id=" + dead[1].ID).decode(&one)
	if string(one.DeadLetters[0].Body) != `{"kind":"unknown kind","from":"i-9"}` || one.DeadLetters[0].From != "i-9" {
		t.Errorf("%+v", one)
	}
	ts.get("/v1/dlq?id=unknown/1-1").expectError(wire.NotFound)
	ts.get("/v1/dlq?limit=1").decode(&one)
	if len(one.DeadLetters) != 1 || one.Total != 2 {
		t.Errorf("one of two: %+v", one)
	}
	ts.get("/v1/instances?nonsense=1").expectError(wire.InvalidRequest)
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "nonsense=1"} {
		ts.get("/v1/dlq?" + query).expectError(wire.InvalidRequest)
	}
	for _, path := range []string{"/v1/dlq/replay", "/v1/dlq/purge"} {
		ts.post(path, object{}).expectError(wire.InvalidRequest)
		ts.post(path, object{"ids": []string{"x"}, "all": true}).expectError(wire.InvalidRequest)
	}

	var out wire.DeadLettersResponse
	none := string(ts.scheduler.Bus.Instance()) + "/abc"
	ts.post("/v1/dlq/replay", object{"ids": []string{dead[0].ID, none}}).decode(&out)
	if len(out.Done) != 1 || len(out.Failed) != 1 {
		t.Errorf("%+v", out)
	}
	ts.post("/v1/dlq/purge", object{"ids": []string{none}}).decode(&out)
	if len(out.Done) != 0 || !strings.Contains(out.Failed[none], "no dead letter") {
		t.Errorf("purge of an unknown dead letter: %+v", out)
	}
	dead = awaitDeadLetters(ts, 2) // it is a dead letter again
	ts.post("/v1/dlq/purge", object{"ids": []string{dead[0].ID}}).decode(&out)
	awaitDeadLetters(ts, 1)
	ts.post("/v1/dlq/purge", object{"all": true}).decode(&out)
	awaitDeadLetters(ts, 0)
	ts.get("/v1/instances").decode(&instances)
	if instances.Instances[0].DeadLetters != 0 || instances.Instances[0].Inbox != 0 {
		t.Errorf("%+v", instances)
	}
}

// TestReplayFailureHasReason: a replay that fails because of this instance's inbox has that as its reason, not the store.
func TestReplayFailureHasReason(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, func(c *config.Config) { c.Scheduler.Phase2.HeartbeatTTLSeconds = 3600 }) // the presence is not renewed during the test
	awaitDeadLetters(ts, 0)                                                                           // the scheduler runs
	self := ts.scheduler.Bus.Instance()
	if _, err := ts.scheduler.Store.Post(t.Context(), store.PostParams{To: self, Body: []byte("no JSON"), MaxMessages: 10}); err != nil {
		t.Fatal(err)
	}
	dead := awaitDeadLetters(ts, 1)[0].ID
	if err := ts.scheduler.Store.Announce(t.Context(), store.AnnounceParams{ID: self}); err != nil {
		t.Fatal(err)
	}
	var out wire.DeadLettersResponse
	ts.post("/v1/dlq/replay", object{"ids": []string{dead}}).decode(&out)
	if len(out.Done) != 0 || !strings.Contains(out.Failed[dead], "does not count as present") {
		t.Errorf("%+v", out)
	}
	awaitDeadLetters(ts, 1)
	if got := ts.scheduler.Server.DeadLetterDetail(bus.ErrFull); !strings.Contains(got, "is full") {
		t.Errorf("a full inbox: %q", got)
	}
}

func (ts *testScheduler) explain(body object) wire.ExplainResponse {
	ts.t.Helper()
	var x wire.ExplainResponse
	ts.post("/v1/dispatch/explain", body).decode(&x)
	return x
}

// explainedServices are the services of a node of TestExplainReasons, as the explanation should have them.
func explainedServices(t *testing.T, n *wire.ExplainNode) []wire.ExplainService {
	t.Helper()
	service := wire.ExplainService{ServiceID: "s", Status: "ready"}
	switch n.NodeID {
	case "SERVICE_MISSING":
		return nil
	case "SERVICE_NOT_READY":
		service.Status = "downloading"
	case "SERVICE_MARKED_UNAVAILABLE":
		service.MarkedMS = n.Services[0].MarkedMS
		if service.MarkedMS <= 0 || service.MarkedMS > 60_100 { // the time of Redis is known to some milliseconds
			t.Errorf("the service is marked for %d ms", service.MarkedMS)
		}
	}
	return []wire.ExplainService{service}
}

// TestExplainReasons: a fleet in which every node is rejected for another reason.
func TestExplainReasons(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	all := object{
		"installed_models": []string{"m"}, "features": []string{"f"}, "region": "eu",
		"installed_services": []object{{"service_id": "s", "status": "ready"}},
	}
	// Each node is named for the reason for which it is rejected.
	for id, n := range map[string]object{
		"FULL":                       {"current_jobs": 2},
		"NO_CAPACITY":                {"max_concurrent_jobs": 0},
		"SEMANTIC_LANG_UNSUPPORTED":  {"semantic_langs": []string{"zh"}},
		"ASR_LANG_UNSUPPORTED":       {"asr_langs": []string{"zh"}},
		"NMT_PAIR_UNSUPPORTED":       {"nmt_pairs": [][]string{{"zh", "en"}}},
		"TTS_LANG_UNSUPPORTED":       {"tts_langs": []string{"en"}},
		"MODEL_MISSING":              {"installed_models": []string{"other"}},
		"FEATURE_MISSING":            {"features": []string{"other"}},
		"SERVICE_MISSING":            {"installed_services": []object{{"service_id": "other", "status": "ready"}}},
		"SERVICE_NOT_READY":          {"installed_services": []object{{"service_id": "s", "status": "downloading"}}},
		"SERVICE_MARKED_UNAVAILABLE": {},
		"OTHER_TENANT":               {"tenant_id": "acme"},
		"OTHER_REGION":               {"region": "us"},
		"HEALTH_NOT_READY":           {"health": "degraded"},
		"NO_CALLBACK_URL":            {"callback_url": nil},
		"CPU_OVER_LIMIT":             {"current_load": object{"cpu": 0.96}},
		"GPU_OVER_LIMIT":             {"current_load": object{"gpu": 0.99}},
		"MEMORY_OVER_LIMIT":          {"current_load": object{"memory": 0.96}},
	} {
		ts.registerNode(id, all.with(n))
		if id == "NO_CALLBACK_URL" {
			ts.nodeByID(id).register(object{"callback_url": nil})
		}
	}
	ts.registerNode("fits", all.with(object{"current_load": object{"cpu": 0.9, "gpu": 0.9, "memory": 0.9}}))
	ts.reportUnavailable(object{"node_id": "SERVICE_MARKED_UNAVAILABLE", "service_id": "s"})

	body := dispatchBody(object{"options": object{
		"require_tts": true, "required_models": []string{"m"}, "required_services": []string{"s"}, "features": []string{"f"}, "region": "eu",
	}})
	x := ts.explain(body)
	want := wire.ExplainResponse{
		SrcLang: "en", TgtLang: "zh", Verdict: "OK", Detail: "1 of 10 capable nodes can take the job now.", Reasons: map[string]int{},
	}
	for _, n := range x.Nodes {
		node := wire.ExplainNode{NodeID: n.NodeID, Reason: n.NodeID, MaxConcurrentJobs: 2}
		switch n.NodeID {
		case "fits":
			node.Reason, node.Eligible = "", true
		case "FULL":
			node.InFlight = 2
		case "NO_CAPACITY":
			node.MaxConcurrentJobs = 0
		}
		node.Services = explainedServices(t, &n)
		want.Nodes = append(want.Nodes, node)
		if node.Reason != "" {
			want.Reasons[node.Reason] = 1
		}
	}
	if diff := cmp.Diff(want, x); diff != "" || len(x.Nodes) != 19 {
		t.Errorf("of %d nodes: (-want +got)\n%s", len(x.Nodes), diff)
	}

	// Explain reserves nothing; a dispatch chooses the node that fits.
	ts.expectNoDelivery()
	if s := ts.getNode("fits"); s.EffectiveLoad != 0 {
		t.Errorf("explain reserved a slot: %+v", s)
	}
	if _, n := ts.dispatchAndReceive(body); n.id != "fits" {
		t.Errorf("explain chose fits, dispatch %s", n.id)
	}
}

// TestExplainAgreesWithDispatch: the verdict of explain is the outcome of the same dispatch.
func TestExplainAgreesWithDispatch(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("full", object{"current_jobs": 2})
	ts.registerNode("german", object{"semantic_langs": []string{"de", "en"}, "nmt_pairs": [][]string{{"de", "en"}}})
	for name, body := range map[string]object{
		"no capable node":          dispatchBody(object{"src_lang": "fr"}),
		"no free slot":             dispatchBody(nil),
		"a free slot":              dispatchBody(object{"src_lang": "de", "tgt_lang": "en"}),
		"preferred cannot":         preferring("german", false),
		"preferred is unknown":     preferring("unknown", false),
		"preferred is full":        preferring("full", false),
		"preferred is full strict": preferring("full", true),
	} {
		want := "OK"
		if a := ts.post("/v1/dispatch/f2f", body); a.status != 200 {
			var e wire.Error
			a.t = t
			a.status = 200
			a.decode(&e)
			want = string(e.Code)
		}
		if x := ts.explain(body); x.Verdict != want || x.Detail == "" {
			t.Errorf("%s: dispatch answers %s, explain %s: %s", name, want, x.Verdict, x.Detail)
		}
	}
}

// TestExplainPreferences: soft reasons, which do not lead to a refusal.
func TestExplainPreferences(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, shortACKTimeout, func(c *config.Config) { c.Scheduler.TaskBinding.SpreadEnabled = true })
	n := ts.registerNode("n1", nil)
	ignoreLoad := cmpopts.IgnoreFields(wire.ExplainNode{}, "InFlight")
	check := func(reason string) {
		t.Helper()
		want := wire.ExplainResponse{
			SrcLang: "en", TgtLang: "zh", Verdict: "OK", Detail: "1 of 1 capable nodes can take the job now.", Reasons: map[string]int{reason: 1},
			Nodes: []wire.ExplainNode{{NodeID: "n1", Reason: reason, Preference: true, MaxConcurrentJobs: 2}},
		}
		if diff := cmp.Diff(want, ts.explain(dispatchBody(nil)), ignoreLoad); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	d, _ := ts.dispatchAndReceive(dispatchBody(nil))
	n.done(d, nil).expectOK()
	check("SPREAD")

	ts.dispatchAndReceive(dispatchBody(nil)) // never acknowledged
	ts.eventually("set the node aside", func() bool { return ts.explain(dispatchBody(nil)).Reasons["SET_ASIDE"] == 1 })
	check("SET_ASIDE")
}

// TestExplainStaleHeartbeat: a node whose last heartbeat is too old.
func TestExplainStaleHeartbeat(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, func(c *config.Config) {
		c.Scheduler.Nodes.HeartbeatIntervalMS, c.Scheduler.Dispatch.HeartbeatStaleMS = 10, 10
	})
	ts.registerNode("n1", object{"max_concurrent_jobs": 1000})
	ts.eventually("refuse the node as stale, once the change that announces its registration is read", func() bool {
		refused := ts.post("/v1/dispatch/f2f", dispatchBody(nil)).status != http.StatusOK
		x := ts.explain(dispatchBody(nil))
		return refused && x.Verdict == string(wire.AllCandidatesFullOrFailed) && cmp.Equal(map[string]int{"HEARTBEAT_STALE": 1}, x.Reasons)
	})
}
