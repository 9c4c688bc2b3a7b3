package server_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// turn reads a list page by page. Between two pages something happens.
func turn[T any](w *world, path string, q url.Values, between func(), take func(*T) (int, string)) {
	w.t.Helper()
	for pages := 0; ; pages++ {
		page := new(T)
		w.get(path + "?" + q.Encode()).into(page)
		n, next := take(page)
		if next == "" {
			return
		}
		if n == 0 || pages > 100 {
			w.t.Fatalf("%s: page %d has %d entries, and there should be more", path, pages, n)
		}
		q.Set("cursor", next)
		if between != nil {
			between()
		}
	}
}

// names reads the names of nodes page by page.
func (w *world) names(q url.Values, between func()) []string {
	w.t.Helper()
	names := []string{}
	turn(w, "/v1/nodes", q, between, func(page *wire.NodeList) (int, string) {
		for _, n := range page.Nodes {
			names = append(names, n.NodeID)
		}
		return len(page.Nodes), page.NextCursor
	})
	return names
}

// TestNodesPageByPage: every node that is there all the time is listed once, whoever comes and goes meanwhile.
func TestNodesPageByPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all, french, west []string
	for i := range 25 {
		id := fmt.Sprintf("n%02d", i)
		more := obj{}
		if i%5 == 0 {
			more["semantic_langs"], french = []string{"fr", "de"}, append(french, id)
		}
		if i%6 == 0 {
			more["region"], west = "west", append(west, id)
		}
		w.node(id, more)
		all = append(all, id)
	}
	came := 0
	between := func() { // one before and one after where the list is; one leaves
		w.node(fmt.Sprintf("a%02d", came), nil)
		w.node(fmt.Sprintf("z%02d", came), nil)
		if err := w.s.Store.Remove(t.Context(), store.RemoveParams{Node: core.NodeID(fmt.Sprintf("n%02d", came))}); err != nil {
			t.Error(err)
		}
		came++
	}
	got := w.names(url.Values{"limit": {"7"}}, between)
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
	if diff := cmp.Diff(gone(french), w.names(url.Values{"limit": {"2"}, "language": {"fr"}}, nil)); diff != "" {
		t.Errorf("of a language (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(gone(west), w.names(url.Values{"limit": {"2"}, "region": {"west"}}, nil)); diff != "" {
		t.Errorf("of a region (-want +got):\n%s", diff)
	}
	w.post("/v1/nodes/n20/drain", nil).into(new(wire.Node))
	if diff := cmp.Diff([]string{"n20"}, w.names(url.Values{"state": {"draining"}}, nil)); diff != "" {
		t.Errorf("in a state (-want +got):\n%s", diff)
	}
	if got := w.names(url.Values{"state": {"silent"}}, nil); len(got) != 0 {
		t.Errorf("silent: %v", got)
	}
}

// TestJobsPageByPage: jobs that come meanwhile are newer than where the list is.
func TestJobsPageByPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node("n1", obj{"max_concurrent_jobs": 100})
	want := make(map[string]bool)
	begin := func(i int) string {
		t.Helper()
		d, _ := w.begin(utterance(obj{"request_id": fmt.Sprintf("r%d", i)}))
		return d.JobID
	}
	for i := range 12 {
		want[begin(i)] = true
	}
	late := 100
	got := make(map[string]int)
	var last *wire.Job
	turn(w, "/v1/jobs", url.Values{"limit": {"5"}}, func() { begin(late); late++ }, func(page *wire.JobList) (int, string) {
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
	w.get("/v1/jobs?language=ko").into(&some)
	if len(some.Jobs) != 0 {
		t.Errorf("jobs of another language: %+v", some)
	}
	w.get("/v1/jobs?language=en&limit=3").into(&some)
	if len(some.Jobs) != 3 || some.NextCursor == "" {
		t.Errorf("%d jobs of the language, next %q", len(some.Jobs), some.NextCursor)
	}
}

// TestPoolsPageByPage: the same directions and the same numbers as on one page.
func TestPoolsPageByPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node("n1", obj{"nmt_pairs": nil, "tts_langs": nil, "semantic_langs": []string{"de", "en", "fr", "it"}, "max_concurrent_jobs": 3})
	w.node("n2", obj{"nmt_pairs": nil, "tts_langs": nil, "semantic_langs": []string{"en", "fr", "ko"}, "region": "west", "max_concurrent_jobs": 2})
	w.begin(obj{"session_id": "s", "src_lang": "ko", "tgt_lang": "en", "request_id": "r1"})
	var whole wire.PoolList
	w.get("/v1/pools").into(&whole)
	if len(whole.Pools) != 16 || whole.NextCursor != "" || whole.Truncated {
		t.Fatalf("%d directions, next %q, truncated %v", len(whole.Pools), whole.NextCursor, whole.Truncated)
	}
	for _, limit := range []string{"1", "3", "15", "16", "17"} {
		var pools []wire.Pool
		turn(w, "/v1/pools", url.Values{"limit": {limit}}, nil, func(page *wire.PoolList) (int, string) {
			pools = append(pools, page.Pools...)
			return len(page.Pools), page.NextCursor
		})
		if diff := cmp.Diff(whole.Pools, pools); diff != "" {
			t.Errorf("%s at a time (-whole +pages):\n%s", limit, diff)
		}
	}
	both := slices.IndexFunc(whole.Pools, func(p wire.Pool) bool { return p.SrcLang == "en" && p.TgtLang == "fr" })
	if diff := cmp.Diff(wire.Pool{SrcLang: "en", TgtLang: "fr", Nodes: 2, Ready: 2, Capacity: 5, InFlight: 1}, whole.Pools[both]); diff != "" {
		t.Errorf("a direction of both (-want +got):\n%s", diff)
	}
	for query, want := range map[string]int{"language=ko": 4, "region=west": 6, "node_id=n1": 12, "node_id=n1&language=de": 6, "node_id=nobody": 0} {
		var some wire.PoolList
		w.get("/v1/pools?" + query).into(&some)
		if len(some.Pools) != want {
			t.Errorf("%s: %d directions, want %d", query, len(some.Pools), want)
		}
	}
}

// TestWrongPages are refused by name.
func TestWrongPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node("n1", nil)
	w.node("n2", nil)
	var page wire.NodeList
	w.get("/v1/nodes?limit=1").into(&page)
	for _, list := range []string{"/v1/nodes", "/v1/jobs", "/v1/pools"} {
		for _, query := range []string{"limit=0", "limit=-1", "limit=1001", "limit=x", "cursor=x", "cursor=%00", "cursor=bm9kZXM", "colour=red"} {
			w.get(list + "?" + query).refused(wire.InvalidRequest)
		}
		if list != "/v1/nodes" {
			w.get(list + "?cursor=" + page.NextCursor).refused(wire.InvalidRequest)
		}
	}
	w.get("/v1/nodes?state=asleep").refused(wire.InvalidRequest)
	w.get("/v1/nodes?language=-").refused(wire.InvalidRequest)
}
