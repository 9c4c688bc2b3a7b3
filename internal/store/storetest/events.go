package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// eventBehaviours is the specification of Events.
var eventBehaviours = []behaviour{
	{"events are read in their order, from a position or the newest", testReadEvents},
	{"only the newest events are kept, and a reader learns of the gap", testEventsAreCapped},
}

// appendEvents appends events with these details.
func appendEvents(t *testing.T, h *Harness, details ...string) []store.Event {
	t.Helper()
	events := make([]store.Event, len(details))
	for i, d := range details {
		events[i] = store.Event{At: time.UnixMilli(int64(i)).UTC(), Kind: store.EventNodeLost, Instance: "i-1", Node: "node-a", Jobs: i, Detail: d}
	}
	if err := h.Store.AppendEvents(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	return events
}

// readEvents reads a part of the log and returns the details.
func readEvents(t *testing.T, h *Harness, after string, limit int) (page store.EventPage, details []string) {
	t.Helper()
	page, err := h.Store.ReadEvents(t.Context(), store.ReadEventsParams{After: after, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Events {
		details = append(details, e.Detail)
	}
	return page, details
}

func testReadEvents(t *testing.T, h *Harness) {
	if page, _ := readEvents(t, h, "", 10); len(page.Events) != 0 {
		t.Fatalf("an empty log has %v", page.Events)
	}
	want := append(appendEvents(t, h, "a", "b"), appendEvents(t, h, "c")...)
	all, _ := readEvents(t, h, "", 10)
	if diff := cmp.Diff(want, all.Events, cmpopts.IgnoreFields(store.Event{}, "ID")); diff != "" {
		t.Errorf("all events (-want +got):\n%s", diff)
	}
	if _, got := readEvents(t, h, "", 2); !cmp.Equal(got, []string{"b", "c"}) {
		t.Errorf("the newest two: %v", got)
	}
	if page, got := readEvents(t, h, all.Events[0].ID, 1); !cmp.Equal(got, []string{"b"}) || page.Gap {
		t.Errorf("one after the first: %v, gap %v", got, page.Gap)
	}
	if page, got := readEvents(t, h, all.Events[2].ID, 10); len(got) != 0 || page.Gap {
		t.Errorf("after the last: %v, gap %v", got, page.Gap)
	}
	for _, bad := range []string{"x", "1", "-", "1-", "1-x", "1-2x", "(1-1", "-1--1"} {
		if _, err := h.Store.ReadEvents(t.Context(), store.ReadEventsParams{After: bad, Limit: 1}); !errors.Is(err, store.ErrBadPosition) {
			t.Errorf("after %q: %v, want ErrBadPosition", bad, err)
		}
	}
}

func testEventsAreCapped(t *testing.T, h *Harness) {
	appendEvents(t, h, "first")
	first, _ := readEvents(t, h, "", 1)
	batch := make([]string, store.MaxEvents/10)
	for i := range batch {
		batch[i] = fmt.Sprint(i)
	}
	for range 22 {
		appendEvents(t, h, batch...)
	}
	page, _ := readEvents(t, h, first.Events[0].ID, 3*store.MaxEvents)
	if n := len(page.Events); n < store.MaxEvents-len(batch) || n > store.MaxEvents+len(batch) || !page.Gap {
		t.Errorf("%d events are kept, gap %v; want about %d, and a gap", n, page.Gap, store.MaxEvents)
	}
}
