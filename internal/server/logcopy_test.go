package server

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

// TestCopyOfALog: a read of the whole log returns what the store would, from every position, and gets only what was added since the last
// one.
func TestCopyOfALog(t *testing.T) {
	t.Parallel()
	st := memstore.New(store.Timing{})
	defer st.Close()
	read := 0
	log := newLogCopy(func(ctx context.Context, p store.ReadLogParams) (journal.Page[store.Event], error) {
		page, err := journal.EventLog(st).Read(ctx, p)
		read += len(page.Entries)
		return page, err
	}, func(e *store.Event) string { return e.ID })
	appended := 0
	add := func(n int) {
		events := make([]store.Event, n)
		for i := range events {
			appended++
			events[i].Detail = fmt.Sprint(appended)
		}
		if err := journal.EventLog(st).Append(t.Context(), events); err != nil {
			t.Fatal(err)
		}
	}
	check := func(p store.ReadLogParams) {
		t.Helper()
		p.Limit = store.MaxLogEntries
		want, wantErr := journal.EventLog(st).Read(t.Context(), p)
		got, err := log.page(t.Context(), p)
		if (err == nil) != (wantErr == nil) || got.Gap != want.Gap {
			t.Errorf("%+v: gap %v, %v; want %v, %v", p, got.Gap, err, want.Gap, wantErr)
		}
		if len(got.Entries) != len(want.Entries) || len(want.Entries) > 0 && (got.Entries[0] != want.Entries[0] || got.Entries[len(got.Entries)-1] != want.Entries[len(want.Entries)-1]) {
			t.Errorf("%+v: %d entries, want %d", p, len(got.Entries), len(want.Entries))
		}
	}
	check(store.ReadLogParams{})
	for _, n := range []int{1, 2, 2500, store.MaxLogEntries, 3} {
		before := read
		add(n)
		all, err := journal.EventLog(st).Read(t.Context(), store.ReadLogParams{Limit: store.MaxLogEntries})
		if err != nil {
			t.Fatal(err)
		}
		check(store.ReadLogParams{})
		if n < 1000 && read-before > n+1 {
			t.Errorf("%d entries were read of %d that were added", read-before, n)
		}
		for _, at := range []int{0, len(all.Entries) / 2, len(all.Entries) - 1} {
			check(store.ReadLogParams{After: all.Entries[at].ID})
			check(store.ReadLogParams{Before: all.Entries[at].ID})
		}
	}
	check(store.ReadLogParams{After: "0-0"})
	check(store.ReadLogParams{Before: "0-0"})
	check(store.ReadLogParams{After: "no position"})
	if few, err := log.page(t.Context(), store.ReadLogParams{Limit: 2}); err != nil || len(few.Entries) != 2 {
		t.Errorf("two entries: %v, %v", cmp.Diff(nil, few.Entries), err)
	}
}
