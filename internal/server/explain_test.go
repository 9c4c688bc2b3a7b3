package server_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

func (w *world) explained(body obj) wire.ExplainResponse {
	w.t.Helper()
	var x wire.ExplainResponse
	w.post("/v1/dispatch/explain", body).into(&x)
	return x
}

// TestExplain shows a fleet in which every node has something else against it.
func TestExplain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := obj{
		"installed_models": []string{"m"}, "features": []string{"f"}, "region": "eu",
		"installed_services": []obj{{"service_id": "s", "status": "ready"}},
	}
	// What each node declares, and the reason for which it is passed over.
	for id, n := range map[string]obj{
		"FULL":                       {"current_jobs": 2},
		"NO_CAPACITY":                {"max_concurrent_jobs": 0},
		"SEMANTIC_LANG_UNSUPPORTED":  {"semantic_langs": []string{"zh"}},
		"ASR_LANG_UNSUPPORTED":       {"asr_langs": []string{"zh"}},
		"NMT_PAIR_UNSUPPORTED":       {"nmt_pairs": [][]string{{"zh", "en"}}},
		"TTS_LANG_UNSUPPORTED":       {"tts_langs": []string{"en"}},
		"MODEL_MISSING":              {"installed_models": []string{"other"}},
		"FEATURE_MISSING":            {"features": []string{"other"}},
		"SERVICE_MISSING":            {"installed_services": []obj{{"service_id": "other", "status": "ready"}}},
		"SERVICE_NOT_READY":          {"installed_services": []obj{{"service_id": "s", "status": "downloading"}}},
		"SERVICE_MARKED_UNAVAILABLE": {},
		"OTHER_TENANT":               {"tenant_id": "acme"},
		"OTHER_REGION":               {"region": "us"},
		"HEALTH_NOT_READY":           {"health": "degraded"},
		"NO_CALLBACK_URL":            {"callback_url": nil},
		"CPU_OVER_LIMIT":             {"current_load": obj{"cpu": 0.96}},
		"GPU_OVER_LIMIT":             {"current_load": obj{"gpu": 0.99}},
		"MEMORY_OVER_LIMIT":          {"current_load": obj{"memory": 0.96}},
	} {
		w.node(id, all.with(n))
		if id == "NO_CALLBACK_URL" {
			w.nodeOf(id).register(obj{"callback_url": nil})
		}
	}
	w.node("fits", all.with(obj{"current_load": obj{"cpu": 0.9, "gpu": 0.9, "memory": 0.9}}))
	w.post("/v1/node/model_not_available", obj{"node_id": "SERVICE_MARKED_UNAVAILABLE", "service_id": "s"}).ok()

	body := utterance(obj{"options": obj{
		"require_tts": true, "required_models": []string{"m"}, "required_services": []string{"s"}, "features": []string{"f"}, "region": "eu",
	}})
	x := w.explained(body)
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
		want.Nodes = append(want.Nodes, node)
		if node.Reason != "" {
			want.Reasons[node.Reason] = 1
		}
	}
	if diff := cmp.Diff(want, x); diff != "" || len(x.Nodes) != 19 {
		t.Errorf("of %d nodes: (-want +got)\n%s", len(x.Nodes), diff)
	}

	// It only asked. The one that fits is given the job when it is meant.
	w.nothing()
	if s := w.status("fits"); s.EffectiveLoad != 0 {
		t.Errorf("explain reserved a slot: %+v", s)
	}
	if _, n := w.begin(body); n.id != "fits" {
		t.Errorf("explain says fits, dispatch chose %s", n.id)
	}
}

// TestExplainAgreesWithDispatch holds the verdict of explain against what becomes of the same request.
func TestExplainAgreesWithDispatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node("full", obj{"current_jobs": 2})
	w.node("german", obj{"semantic_langs": []string{"de", "en"}, "nmt_pairs": [][]string{{"de", "en"}}})
	for name, body := range map[string]obj{
		"nobody can":               utterance(obj{"src_lang": "fr"}),
		"nobody can now":           utterance(nil),
		"somebody can":             utterance(obj{"src_lang": "de", "tgt_lang": "en"}),
		"preferred cannot":         prefers("german", false),
		"preferred is not there":   prefers("nobody", false),
		"preferred is full":        prefers("full", false),
		"preferred is full strict": prefers("full", true),
	} {
		want := "OK"
		if a := w.post("/v1/dispatch/f2f", body); a.status != 200 {
			var e wire.Error
			a.t = t
			a.status = 200
			a.into(&e)
			want = string(e.Code)
		}
		if x := w.explained(body); x.Verdict != want || x.Detail == "" {
			t.Errorf("%s: dispatch says %s, explain %s: %s", name, want, x.Verdict, x.Detail)
		}
	}
}

// TestExplainPreferences shows reasons that yield before a refusal.
func TestExplainPreferences(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brief, func(c *config.Config) { c.Scheduler.TaskBinding.SpreadEnabled = true })
	n := w.node("n1", nil)
	ignoreLoad := cmpopts.IgnoreFields(wire.ExplainNode{}, "InFlight")
	check := func(reason string) {
		t.Helper()
		want := wire.ExplainResponse{
			SrcLang: "en", TgtLang: "zh", Verdict: "OK", Detail: "1 of 1 capable nodes can take the job now.", Reasons: map[string]int{reason: 1},
			Nodes: []wire.ExplainNode{{NodeID: "n1", Reason: reason, Preference: true, MaxConcurrentJobs: 2}},
		}
		if diff := cmp.Diff(want, w.explained(utterance(nil)), ignoreLoad); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	d, _ := w.begin(utterance(nil))
	n.done(d, nil).ok()
	check("SPREAD")

	d, _ = w.begin(utterance(nil)) // never confirmed
	w.reaches(d.JobID, "RETRYING")
	check("SET_ASIDE")
}

// TestExplainStale shows a node that has not been heard lately.
func TestExplainStale(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config.Config) {
		c.Scheduler.Nodes.HeartbeatIntervalMS, c.Scheduler.Dispatch.HeartbeatStaleMS = 10, 10
	})
	w.node("n1", nil)
	var x wire.ExplainResponse
	w.eventually("the node is stale", func() bool {
		x = w.explained(utterance(nil))
		return x.Verdict != "OK"
	})
	if diff := cmp.Diff(map[string]int{"HEARTBEAT_STALE": 1}, x.Reasons); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	w.post("/v1/dispatch/f2f", utterance(nil)).refused(wire.AllCandidatesFullOrFailed)
}
