package server_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// readPages reads a list page by page. between is called between two pages.
func readPages[T any](ts *testScheduler, path string, q url.Values, between func(), take func(*T) (int, string)) {
	ts.t.Helper()
	for pages := 0; ; pages++ {
		page := new(T)
		ts.get(path + "?" + q.Encode()).decode(page)
		n, next := take(page)
		if next == "" {
			return
		}
		if n == 0 || pages > 100 {
			ts.t.Fatalf("%s: page %d has %d entries, and there should be more", path, pages, n)
		}
		q.Set("cursor", next)
		if between != nil {
			between()
		}
	}
}

// listNodes reads the names of nodes page by page.
func listNodes(ts *testScheduler, q url.Values, between func()) []string {
	ts.t.Helper()
	names := []string{}
	readPages(ts, "/v1/nodes", q, between, func(page *wire.NodeList) (int, string) {
		for _, n := range page.Nodes {
			names = append(names, n.NodeID)
		}
		return len(page.Nodes), page.NextCursor
	})
	return names
}

// TestNodePages: every node that exists all the time is listed once, while others come and go.
func TestNodePages(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	var all, french, west []string
	for i := range 25 {
		id := fmt.Sprintf("n%02d", i)
		more := object{}
		if i%5 == 0 {
			more["semantic_langs"], french = []string{"fr", "de"}, append(french, id)
		}
		if i%6 == 0 {
			more["region"], west = "west", append(west, id)
		}
		ts.registerNode(id, more)
		all = append(all, id)
	}
	came := 0
	between := func() { // a node is added before and one after the current page, and one is removed
		ts.registerNode(fmt.Sprintf("a%02d", came), nil)
		ts.registerNode(fmt.Sprintf("z%02d", came), nil)
		if _, err := ts.scheduler.Store.Remove(t.Context(), store.RemoveParams{Node: core.NodeID(fmt.Sprintf("n%02d", came))}); err != nil {
			t.Error(err)
		}
		came++
	}
	got := listNodes(ts, url.Values{"limit": {"7"}}, between)
	kept := slices.DeleteFunc(slices.Clone(got), func(id string) bool { return id[0] != 'n' })
	if diff := cmp.Diff(all, kept); diff != "" {
		t.Errorf("nodes page by page (-want +got):\n%s", diff)
	}
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("not in order, or listed twice: %v", got)
	}
	gone := func(ids []string) []string {
		return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id < fmt.Sprintf("n%02d", came) })
	}
	if diff := cmp.Diff(gone(french), listNodes(ts, url.Values{"limit": {"2"}, "language": {"fr"}}, nil)); diff != "" {
		t.Errorf("of a language (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(gone(west), listNodes(ts, url.Values{"limit": {"2"}, "region": {"west"}}, nil)); diff != "" {
		t.Errorf("of a region (-want +got):\n%s", diff)
	}
	ts.post("/v1/nodes/n20/drain", nil).decode(new(wire.Node))
	if diff := cmp.Diff([]string{"n20"}, listNodes(ts, url.Values{"state": {"draining"}}, nil)); diff != "" {
		t.Errorf("in a state (-want +got):\n%s", diff)
	}
	if got := listNodes(ts, url.Values{"state": {"silent"}}, nil); len(got) != 0 {
		t.Errorf("silent: %v", got)
	}
}

// TestJobPages: every job is listed once, the newest first, while further jobs are dispatched.
func TestJobPages(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", object{"max_concurrent_jobs": 100})
	want := make(map[string]bool)
	begin := func(i int) string {
		t.Helper()
		d, _ := ts.dispatchAndReceive(dispatchBody(object{"request_id": fmt.Sprintf("r%d", i)}))
		return d.JobID
	}
	for i := range 12 {
		want[begin(i)] = true
	}
	late := 100
	got := make(map[string]int)
	var last *wire.Job
	readPages(ts, "/v1/jobs", url.Values{"limit": {"5"}}, func() { begin(late); late++ }, func(page *wire.JobList) (int, string) {
		for i := range page.Jobs {
			got[page.Jobs[i].JobID]++
			if last != nil && page.Jobs[i].CreatedMS > last.CreatedMS {
				t.Errorf("%s is newer than %s, which comes before it", page.Jobs[i].JobID, last.JobID)
			}
			last = &page.Jobs[i]
		}
		return len(page.Jobs), page.NextCursor
	})
	for id := range want {
		if got[id] != 1 {
			t.Errorf("%s is listed %d times", id, got[id])
		}
	}
	var some wire.JobList
	ts.get("/v1/jobs?language=ko").decode(&some)
	if len(some.Jobs) != 0 {
		t.Errorf("jobs of another language: %+v", some)
	}
	ts.get("/v1/jobs?language=en&limit=3").decode(&some)
	if len(some.Jobs) != 3 || some.NextCursor == "" {
		t.Errorf("%d jobs of the language, next %q", len(some.Jobs), some.NextCursor)
	}
}

// TestDirectionPages: the pages have the same directions and numbers as one page.
func TestDirectionPages(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", object{"nmt_pairs": nil, "tts_langs": nil, "semantic_langs": []string{"de", "en", "fr", "it"}, "max_concurrent_jobs": 3})
	ts.registerNode("n2", object{"nmt_pairs": nil, "tts_langs": nil, "semantic_langs": []string{"en", "fr", "ko"}, "region": "west", "max_concurrent_jobs": 2})
	ts.dispatchAndReceive(object{"session_id": "s", "src_lang": "ko", "tgt_lang": "en", "request_id": "r1"})
	var whole wire.DirectionList
	ts.get("/v1/directions").decode(&whole)
	if len(whole.Directions) != 16 || whole.NextCursor != "" || whole.Truncated {
		t.Fatalf("%d directions, next %q, truncated %v", len(whole.Directions), whole.NextCursor, whole.Truncated)
	}
	for _, limit := range []string{"1", "3", "15", "16", "17"} {
		var pages []wire.Direction
		readPages(ts, "/v1/directions", url.Values{"limit": {limit}}, nil, func(page *wire.DirectionList) (int, string) {
			pages = append(pages, page.Directions...)
			return len(page.Directions), page.NextCursor
		})
		if diff := cmp.Diff(whole.Directions, pages, ignoreDemand); diff != "" {
			t.Errorf("%s at a time (-whole +pages):\n%s", limit, diff)
		}
	}
	both := slices.IndexFunc(whole.Directions, func(d wire.Direction) bool { return d.SrcLang == "en" && d.TgtLang == "fr" })
	if diff := cmp.Diff(wire.Direction{SrcLang: "en", TgtLang: "fr", Nodes: 2, Ready: 2, Capacity: 5, InFlight: 1, Free: 4}, whole.Directions[both], ignoreDemand); diff != "" {
		t.Errorf("a direction of both (-want +got):\n%s", diff)
	}
	for query, want := range map[string]int{"language=ko": 4, "region=west": 6, "node_id=n1": 12, "node_id=n1&language=de": 6, "node_id=unknown": 0} {
		var some wire.DirectionList
		ts.get("/v1/directions?" + query).decode(&some)
		if len(some.Directions) != want {
			t.Errorf("%s: %d directions, want %d", query, len(some.Directions), want)
		}
	}
}

// TestInvalidListQueries: invalid limits, cursors and filters are refused.
func TestInvalidListQueries(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", nil)
	ts.registerNode("n2", nil)
	var page wire.NodeList
	ts.get("/v1/nodes?limit=1").decode(&page)
	for _, list := range []string{"/v1/nodes", "/v1/jobs", "/v1/directions"} {
		for _, query := range []string{"limit=0", "limit=-1", "limit=1001", "limit=x", "cursor=x", "cursor=%00", "cursor=bm9kZXM", "colour=red"} {
			ts.get(list + "?" + query).expectError(wire.InvalidRequest)
		}
		if list != "/v1/nodes" {
			ts.get(list + "?cursor=" + page.NextCursor).expectError(wire.InvalidRequest)
		}
	}
	ts.get("/v1/nodes?state=asleep").expectError(wire.InvalidRequest)
	ts.get("/v1/nodes?language=-").expectError(wire.InvalidRequest)
}

// TestNodeView: the API shows a node's declaration, with normalised languages.
func TestNodeView(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", object{
		"asr_langs": []string{"en", "cmn"}, "semantic_langs": []string{"zh-Hans", "en"}, "nmt_pairs": [][]string{{"en", "zho"}},
		"tts_langs": []string{"zh"}, "capability_by_type": object{"tone": true, "tts": false}, "installed_models": []string{"m2", "m1"},
		"installed_services": []object{{"service_id": "s", "version": "1", "type": "asr", "status": "stopped"}},
		"features":           []string{"f"}, "region": "eu", "zone": "eu-1", "tenant_id": "acme", "current_load": object{"memory": 0.5},
		"callback_url": nil,
	})
	n.declaration["callback_url"] = n.srv.URL + "/jobs?token=hidden"
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
	if diff := cmp.Diff(want, ts.getNode("n1"), cmpopts.IgnoreFields(wire.Node{}, "LastHeartbeatMS")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var list wire.NodeList
	ts.get("/v1/nodes").decode(&list)
	if diff := cmp.Diff([]wire.Node{want}, list.Nodes, cmpopts.IgnoreFields(wire.Node{}, "LastHeartbeatMS")); diff != "" {
		t.Errorf("the list: (-want +got)\n%s", diff)
	}
}

// TestNodeSlotCounts: the counts of a node's slots, from reserved to running to free, beside foreign work.
func TestNodeSlotCounts(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", object{"max_concurrent_jobs": 4})
	counts := func(reserved, running, foreign int) { // eventually: slots are released in the background
		t.Helper()
		want := []int{4, reserved, running, foreign, reserved + running + foreign}
		ts.eventually(fmt.Sprint("max, reserved, running, foreign, effective_load: ", want), func() bool {
			s := ts.getNode("n1")
			return slices.Equal(want, []int{s.MaxConcurrentJobs, s.Reserved, s.Running, s.Foreign, s.EffectiveLoad})
		})
	}
	counts(0, 0, 0)
	d1, _ := ts.dispatchAndReceive(dispatchBody(nil))
	counts(1, 0, 0)
	d2, _ := ts.dispatchAndReceive(dispatchBody(nil))
	n.ack(d1, nil).expectOK()
	counts(1, 1, 0)
	n.heartbeat(object{"current_jobs": 3, "active": activeList(d1, d2)})
	counts(1, 1, 1)
	n.heartbeat(object{"current_jobs": 3}) // without a list, two of the three count as ours
	counts(1, 1, 1)
	ts.dispatchAndReceive(dispatchBody(nil))
	counts(2, 1, 1)
	ts.post("/v1/dispatch/f2f", dispatchBody(nil)).expectError(wire.AllCandidatesFullOrFailed)
	n.done(d1, nil).expectOK()
	counts(2, 0, 1)
	n.heartbeat(nil)
	counts(2, 0, 0)
}

// TestDirectionCounts: each direction with its nodes and free slots.
func TestDirectionCounts(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	expect := func(want ...wire.Direction) {
		t.Helper()
		var got wire.DirectionList
		ts.get("/v1/directions").decode(&got)
		if diff := cmp.Diff(wire.DirectionList{Directions: want}, got, cmpopts.EquateEmpty(), ignoreDemand); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	expect()
	ts.registerNode("a", nil)
	ts.registerNode("b", object{"max_concurrent_jobs": 3, "nmt_pairs": [][]string{{"en", "zh"}}})
	ts.registerNode("c", object{"health": "degraded", "nmt_pairs": [][]string{{"en", "zh"}}})
	ts.dispatchAndReceive(dispatchBody(object{"options": object{"preferred_node_id": "b"}}))
	expect(
		wire.Direction{SrcLang: "en", TgtLang: "zh", Nodes: 3, Ready: 2, Capacity: 5, InFlight: 1, Free: 4},
		wire.Direction{SrcLang: "zh", TgtLang: "en", Nodes: 1, Ready: 1, Capacity: 2, Free: 2},
	)
	ts.request("POST", "/v1/nodes/b/drain", "", nil)
	expect(
		wire.Direction{SrcLang: "en", TgtLang: "zh", Nodes: 3, Ready: 1, Capacity: 2, Free: 2},
		wire.Direction{SrcLang: "zh", TgtLang: "en", Nodes: 1, Ready: 1, Capacity: 2, Free: 2},
	)
}

// TestJobListFilters: the filters and the limit of the list of jobs.
func TestJobListFilters(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	a, b := ts.registerNode("a", nil), ts.registerNode("b", nil)
	var ids []string
	for i, n := range []*callbackNode{a, b, a, b} {
		ts.awaitNextMillisecond() // the list is ordered by time
		d, _ := ts.dispatchAndReceive(dispatchBody(object{"session_id": []string{"s1", "s2"}[i/2], "options": object{"preferred_node_id": n.id}}))
		switch i {
		case 1:
			n.ack(d, nil).expectOK()
		case 2:
			n.done(d, nil).expectOK()
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
		"?node_id=unknown":         {},
	} {
		var list wire.JobList
		ts.get("/v1/jobs" + query).decode(&list)
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

// TestStateFilterWithLimit: the filter applies before the limit: an acknowledged job is found behind newer ones.
func TestStateFilterWithLimit(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", object{"max_concurrent_jobs": 3})
	d, _ := ts.dispatchAndReceive(dispatchBody(nil))
	n.ack(d, nil).expectOK()
	ts.dispatchAndReceive(dispatchBody(nil))
	ts.dispatchAndReceive(dispatchBody(nil))
	var list wire.JobList
	ts.get("/v1/jobs?state=ACKED&limit=1").decode(&list)
	if len(list.Jobs) != 1 || list.Jobs[0].JobID != d.JobID {
		t.Errorf("want the one job that is ACKED, got %+v", list.Jobs)
	}
}
