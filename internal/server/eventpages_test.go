package server_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestEventsNewestFirst reads the event log backwards in pages: all of it, what matches a filter, and what a tenant may see.
func TestEventsNewestFirst(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithNamedKeys(t)
	var log []store.Event
	for i := range 2500 {
		e := store.Event{Kind: store.EventNodeDrained, Node: core.NodeID(fmt.Sprint("n-", i)), Tenant: "zeta", Instance: "i-1"}
		switch {
		case i%500 == 0:
			e.Kind, e.Tenant = store.EventNodeLost, "acme"
		case i == 7:
			e = store.Event{Kind: store.EventCoverage, Direction: core.Direction{Src: "en", Tgt: "zh"}, Detail: "en→zh has no ready node", Instance: "i-1"}
		}
		log = append(log, e)
	}
	for batch := range slices.Chunk(log, 250) {
		if err := journal.EventLog(ts.scheduler.Store).Append(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	all := func(key, query string) (events []wire.Event) {
		t.Helper()
		for before, pages := "", 0; ; pages++ {
			var page wire.EventList
			ts.requestAs(key, "GET", "/v1/events?order=desc&"+query+before, nil).decode(&page)
			events = append(events, page.Events...)
			if page.Next == "" {
				return events
			}
			if before = "&before=" + page.Next; pages > 100 {
				t.Fatal("there is no last page")
			}
		}
	}
	var forwards wire.EventList
	ts.requestAs(alice, "GET", "/v1/events?limit=1000", nil).decode(&forwards)
	slices.Reverse(forwards.Events)
	var first wire.EventList
	ts.requestAs(alice, "GET", "/v1/events?order=desc&limit=1000", nil).decode(&first)
	written := func(events []wire.Event) []wire.Event { // the newest of those above: the scheduler may have written others meanwhile
		return slices.DeleteFunc(slices.Clone(events), func(e wire.Event) bool { return e.Instance != "i-1" })[:900]
	}
	if diff := cmp.Diff(written(forwards.Events), written(first.Events)); diff != "" {
		t.Errorf("the newest events (-forwards +backwards):\n%s", diff)
	}
	if got := all(alice, "limit=700"); len(got) < len(log) {
		t.Errorf("%d events in pages, want at least %d", len(got), len(log))
	}
	nodesOf := func(events []wire.Event) (names []string) {
		for _, e := range events {
			names = append(names, e.NodeID)
		}
		return names
	}
	lost := []string{"n-2000", "n-1500", "n-1000", "n-500", "n-0"}
	for _, query := range []string{"limit=1", "limit=2", "limit=5", "limit=100"} {
		if diff := cmp.Diff(lost, nodesOf(all(alice, "kind=node_lost&"+query))); diff != "" {
			t.Errorf("%s: lost nodes (-want +got):\n%s", query, diff)
		}
		if diff := cmp.Diff(lost, nodesOf(all(acmeView, query))); diff != "" {
			t.Errorf("%s: what a tenant sees (-want +got):\n%s", query, diff)
		}
	}
	if got := all(alice, "node=n-500"); len(got) != 1 {
		t.Errorf("events of a node: %+v", got)
	}
	if got := all(alice, "kind=coverage"); len(got) != 1 || got[0].SrcLang != "en" || got[0].TgtLang != "zh" || got[0].Ready == nil || *got[0].Ready != 0 {
		t.Errorf("events about the coverage: %+v", got)
	}
	for _, query := range []string{"order=down", "order=desc&after=" + first.Next, "before=" + first.Next, "order=asc&before=1-1", "order=desc&before=x", "order=desc&limit=0"} {
		ts.requestAs(alice, "GET", "/v1/events?"+query, nil).expectError(wire.InvalidRequest)
	}
}
