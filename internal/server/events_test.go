package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// eventsAfter reads the event log and returns a line for each event.
func (ts *testScheduler) eventsAfter(query string) (list wire.EventList, lines []string) {
	ts.t.Helper()
	ts.get("/v1/events" + query).decode(&list)
	for _, e := range list.Events {
		lines = append(lines, fmt.Sprintf("%s %s %s", e.Kind, e.NodeID, e.Detail))
	}
	return list, lines
}

// TestPositionsDoNotTellOfOtherTenants: neither the entries that a key of a tenant reads nor its position in the log change when something
// happens to another tenant, and it reads all entries of its own tenant page by page.
func TestPositionsDoNotTellOfOtherTenants(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithNamedKeys(t)
	read := func(path string) (page struct {
		Next            string
		Events, Entries []struct{ ID string }
	}) {
		t.Helper()
		ts.requestAs(acmeView, "GET", path, nil).decode(&page)
		return page
	}
	for i := range 3 {
		ts.connectNodeAs(acmeGPU, fmt.Sprint("acme-", i))
		ts.connectNodeAs(sharedGP, fmt.Sprint("shared-", i))
		ts.mint(acmeMint, fmt.Sprint("room-", i))
		ts.mint(zetaMint, fmt.Sprint("room-", i))
	}
	for log, all := range map[string]int{"/v1/events": 3, "/v1/audit": 6} {
		ts.eventually("all is in "+log, func() bool {
			newest := read(log)
			return len(newest.Events)+len(newest.Entries) == all
		})
		before := read(log).Next
		ts.connectNodeAs(sharedGP, "shared-last"+strings.ReplaceAll(log, "/", "-"))
		ts.mint(zetaMint, "room-last")
		ts.eventually("what happened to others is in "+log, func() bool {
			var page struct{ Next string }
			ts.requestAs(alice, "GET", log, nil).decode(&page)
			return page.Next != before
		})
		if after := read(log).Next; after != before {
			t.Errorf("%s: the position was %s and is %s", log, before, after)
		}
		pages, position := 0, "0-0"
		for page := read(log + "?limit=1&after=" + position); len(page.Events)+len(page.Entries) > 0; page = read(log + "?limit=1&after=" + position) {
			if len(page.Events)+len(page.Entries) != 1 || page.Next == position {
				t.Fatalf("%s after %s: %+v", log, position, page)
			}
			pages, position = pages+1, page.Next
		}
		if pages != all || position != before {
			t.Errorf("%s: %d pages of one entry until %s, want %d until %s", log, pages, position, all, before)
		}
	}
}

// TestEvents: what happens to nodes is in the event log, in its order, and can be followed.
func TestEvents(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.eventually("the leader's event", func() bool { // it would come at any time
		list, _ := ts.eventsAfter("?kind=stats_leader")
		return len(list.Events) > 0
	})
	ts.registerNode("n1", nil)
	ts.registerNode("n1", nil)
	ts.registerNode("n2", nil)
	want := []string{"node_registered n1 new", "node_registered n1 again", "node_registered n2 new"}
	var first wire.EventList
	var got []string
	ts.eventually("the registrations are in the log", func() bool {
		first, got = ts.eventsAfter("?kind=node_registered")
		return len(got) == len(want)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	ts.request("POST", "/v1/nodes/n1/drain", "", nil).decode(new(wire.Node))
	ts.request("POST", "/v1/nodes/n1/resume", "", nil).decode(new(wire.Node))
	ts.request("DELETE", "/v1/nodes/n1", "", nil).decode(new(wire.NodeRemoved))
	n := ts.connectNode("n3")
	n.send(object{"type": "node_leave"})
	n.expectNormalClose()
	want = []string{"node_drained n1 ", "node_resumed n1 ", "node_removed n1 ", "node_registered n3 new", "node_left n3 "}
	ts.eventually("the rest is in the log", func() bool {
		_, got = ts.eventsAfter("?after=" + first.Next)
		return len(got) == len(want)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after %s (-want +got)\n%s", first.Next, diff)
	}
	if _, got := ts.eventsAfter("?node=n1&limit=1"); !cmp.Equal(got, []string{"node_removed n1 "}) {
		t.Errorf("the newest event about n1: %v", got)
	}
	for _, bad := range []string{"after=x", "kind=party", "limit=0", "limit=x", "limit=1001", "node=a/b", "since=1"} {
		ts.get("/v1/events?" + bad).expectError(wire.InvalidRequest)
	}
}
