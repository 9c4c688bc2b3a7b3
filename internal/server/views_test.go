package server_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestNodeView shows what a node declared, in the normal form of its languages.
func TestNodeView(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", obj{
		"asr_langs": []string{"en", "cmn"}, "semantic_langs": []string{"zh-Hans", "en"}, "nmt_pairs": [][]string{{"en", "zho"}},
		"tts_langs": []string{"zh"}, "capability_by_type": obj{"tone": true, "tts": false}, "installed_models": []string{"m2", "m1"},
		"installed_services": []obj{{"service_id": "s", "version": "1", "type": "asr", "status": "stopped"}},
		"features":           []string{"f"}, "region": "eu", "zone": "eu-1", "tenant_id": "acme", "current_load": obj{"memory": 0.5},
		"callback_url": nil,
	})
	n.said["callback_url"] = n.srv.URL + "/jobs?token=hidden"
	n.register(nil)
	yes, no, half := true, false, 0.5
	want := wire.Node{
		NodeID: "n1", Epoch: n.epoch, Online: true, Health: "ready", MaxConcurrentJobs: 2, CurrentLoad: &wire.Load{Memory: &half},
		NodeCapabilities: wire.NodeCapabilities{
			ASRLangs: []string{"en", "zh"}, SemanticLangs: []string{"en", "zh"}, NMTPairs: [][]string{{"en", "zh"}}, TTSLangs: []string{"zh"},
			CapabilityByType: &wire.CapabilityByType{TTS: &no, Tone: &yes}, InstalledModels: []string{"m1", "m2"},
			InstalledServices: []wire.Service{{ServiceID: "s", Version: "1", Type: "asr", Status: "stopped"}}, Features: []string{"f"},
		},
		Region: "eu", Zone: "eu-1", TenantID: "acme", CallbackURL: n.srv.URL + "/jobs",
	}
	if diff := cmp.Diff(want, w.status("n1"), cmpopts.IgnoreFields(wire.Node{}, "LastHeartbeatMS")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var list wire.NodeList
	w.get("/v1/nodes").into(&list)
	if diff := cmp.Diff([]wire.Node{want}, list.Nodes, cmpopts.IgnoreFields(wire.Node{}, "LastHeartbeatMS")); diff != "" {
		t.Errorf("the list: (-want +got)\n%s", diff)
	}
}

// TestNodeCounts follows a slot from promised to taken to free, beside work that is not the scheduler's.
func TestNodeCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", obj{"max_concurrent_jobs": 4})
	counts := func(reserved, running, foreign int) { // after a while: nobody waits for a slot to be freed
		t.Helper()
		want := []int{4, reserved, running, foreign, reserved + running + foreign}
		w.eventually(fmt.Sprint("max, reserved, running, foreign, effective_load: ", want), func() bool {
			s := w.status("n1")
			return slices.Equal(want, []int{s.MaxConcurrentJobs, s.Reserved, s.Running, s.Foreign, s.EffectiveLoad})
		})
	}
	counts(0, 0, 0)
	d1, _ := w.begin(utterance(nil))
	counts(1, 0, 0)
	d2, _ := w.begin(utterance(nil))
	n.ack(d1, nil).ok()
	counts(1, 1, 0)
	n.beat(obj{"current_jobs": 3, "active": active(d1, d2)})
	counts(1, 1, 1)
	n.beat(obj{"current_jobs": 3}) // it does not list: two of the three are taken for ours
	counts(1, 1, 1)
	w.begin(utterance(nil))
	counts(2, 1, 1)
	w.post("/v1/dispatch/f2f", utterance(nil)).refused(wire.AllCandidatesFullOrFailed)
	n.done(d1, nil).ok()
	counts(2, 0, 1)
	n.beat(nil)
	counts(2, 0, 0)
}

// TestPools shows each direction with who serves it and how much is left.
func TestPools(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pools := func(want ...wire.Pool) {
		t.Helper()
		var got wire.PoolList
		w.get("/v1/pools").into(&got)
		if diff := cmp.Diff(wire.PoolList{Pools: want}, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	pools()
	w.node("a", nil)
	w.node("b", obj{"max_concurrent_jobs": 3, "nmt_pairs": [][]string{{"en", "zh"}}})
	w.node("c", obj{"health": "degraded", "nmt_pairs": [][]string{{"en", "zh"}}})
	w.begin(utterance(obj{"options": obj{"preferred_node_id": "b"}}))
	pools(
		wire.Pool{SrcLang: "en", TgtLang: "zh", Nodes: 3, Ready: 2, Capacity: 5, InFlight: 1},
		wire.Pool{SrcLang: "zh", TgtLang: "en", Nodes: 1, Ready: 1, Capacity: 2},
	)
	w.ask("POST", "/v1/nodes/b/drain", "", nil)
	pools(
		wire.Pool{SrcLang: "en", TgtLang: "zh", Nodes: 3, Ready: 1, Capacity: 2},
		wire.Pool{SrcLang: "zh", TgtLang: "en", Nodes: 1, Ready: 1, Capacity: 2},
	)
}

// TestJobList filters and bounds the list, the newest first.
func TestJobList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.node("a", nil), w.node("b", nil)
	var ids []string
	for i, n := range []*node{a, b, a, b} {
		d, _ := w.begin(utterance(obj{"session_id": []string{"s1", "s2"}[i/2], "options": obj{"preferred_node_id": n.id}}))
		switch i {
		case 1:
			n.ack(d, nil).ok()
		case 2:
			n.done(d, nil).ok()
		}
		ids = append(ids, d.JobID)
	}
	for query, want := range map[string][]int{
		"":                         {3, 2, 1, 0},
		"?limit=2":                 {3, 2},
		"?node_id=a":               {2, 0},
		"?session_id=s1":           {1, 0},
		"?state=DONE":              {2},
		"?state=ACKED":             {1},
		"?state=DISPATCHED":        {3, 0},
		"?state=FAILED":            {},
		"?session_id=s1&node_id=b": {1},
		"?node_id=nobody":          {},
	} {
		var list wire.JobList
		w.get("/v1/jobs" + query).into(&list)
		got, wanted := []string{}, []string{}
		for _, j := range list.Jobs {
			got = append(got, j.JobID)
		}
		for _, i := range want {
			wanted = append(wanted, ids[i])
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("/v1/jobs%s: (-want +got)\n%s", query, diff)
		}
	}
}

// TestStateFilterWithLimit finds a confirmed job behind newer ones that are not.
func TestStateFilterWithLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", obj{"max_concurrent_jobs": 3})
	d, _ := w.begin(utterance(nil))
	n.ack(d, nil).ok()
	w.begin(utterance(nil))
	w.begin(utterance(nil))
	var list wire.JobList
	w.get("/v1/jobs?state=ACKED&limit=1").into(&list)
	if len(list.Jobs) != 1 || list.Jobs[0].JobID != d.JobID {
		t.Errorf("want the one job that is ACKED, got %+v", list.Jobs)
	}
}
