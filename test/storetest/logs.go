package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// storedLog is one of the logs of a store. All keep the same promises.
type storedLog[T any] struct {
	entry  func(i int, text string) T
	text   func(T) string
	id     func(T) string
	append func(*Harness, context.Context, []T) error
	read   func(*Harness, context.Context, store.ReadLogParams) (store.LogPage[T], error)
}

var (
	eventBehaviours = logBehaviours(storedLog[store.Event]{
		entry: func(i int, text string) store.Event {
			return store.Event{At: time.UnixMilli(int64(i)).UTC(), Kind: store.EventNodeLost, Instance: "i-1", Node: "node-a", Jobs: i,
				Detail: text}
		},
		text: func(e store.Event) string { return e.Detail },
		id:   func(e store.Event) string { return e.ID },
		append: func(h *Harness, ctx context.Context, events []store.Event) error {
			return h.Store.AppendEvents(ctx, events)
		},
		read: func(h *Harness, ctx context.Context, p store.ReadLogParams) (store.LogPage[store.Event], error) {
			return h.Store.ReadEvents(ctx, p)
		},
	})
	auditBehaviours = append(logBehaviours(storedLog[store.AuditEntry]{
		entry: func(i int, text string) store.AuditEntry {
			return store.AuditEntry{
				At: time.UnixMilli(int64(i)).UTC(), Key: "ops", Role: "operator", Tenant: "acme", Action: "node.drain", Object: text,
				Outcome: store.AuditDenied, Reason: "wrong_role", Request: "req-1", Address: "192.0.2.1", Instance: "i-1", Suppressed: i,
			}
		},
		text: func(e store.AuditEntry) string { return e.Object },
		id:   func(e store.AuditEntry) string { return e.ID },
		append: func(h *Harness, ctx context.Context, entries []store.AuditEntry) error {
			return h.Store.AppendAudit(ctx, entries)
		},
		read: func(h *Harness, ctx context.Context, p store.ReadLogParams) (store.LogPage[store.AuditEntry], error) {
			return h.Store.ReadAudit(ctx, p)
		},
	}), behaviour{"events and audit entries are in two logs", testLogsAreSeparate})
)

// logBehaviours is the specification of a log.
func logBehaviours[T any](l storedLog[T]) []behaviour {
	return []behaviour{
		{"entries are read in their order, from a position or the newest", l.testRead},
		{"only the newest entries are kept, and a reader learns of the gap", l.testCap},
	}
}

// appendTexts appends entries with these texts.
func (l storedLog[T]) appendTexts(t *testing.T, h *Harness, texts ...string) []T {
	t.Helper()
	entries := make([]T, len(texts))
	for i, text := range texts {
		entries[i] = l.entry(i, text)
	}
	if err := l.append(h, t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	return entries
}

// readTexts reads a part of the log and returns the texts.
func (l storedLog[T]) readTexts(t *testing.T, h *Harness, after string, limit int) (page store.LogPage[T], texts []string) {
	t.Helper()
	page, err := l.read(h, t.Context(), store.ReadLogParams{After: after, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		texts = append(texts, l.text(e))
	}
	return page, texts
}

func (l storedLog[T]) testRead(t *testing.T, h *Harness) {
	if page, _ := l.readTexts(t, h, "", 10); len(page.Entries) != 0 {
		t.Fatalf("an empty log has %v", page.Entries)
	}
	want := append(l.appendTexts(t, h, "a", "b"), l.appendTexts(t, h, "c")...)
	all, _ := l.readTexts(t, h, "", 10)
	var zero T
	if diff := cmp.Diff(want, all.Entries, cmpopts.IgnoreFields(zero, "ID")); diff != "" {
		t.Errorf("all entries (-want +got):\n%s", diff)
	}
	if _, got := l.readTexts(t, h, "", 2); !cmp.Equal(got, []string{"b", "c"}) {
		t.Errorf("the newest two: %v", got)
	}
	if page, got := l.readTexts(t, h, l.id(all.Entries[0]), 1); !cmp.Equal(got, []string{"b"}) || page.Gap {
		t.Errorf("one after the first: %v, gap %v", got, page.Gap)
	}
	if page, got := l.readTexts(t, h, l.id(all.Entries[2]), 10); len(got) != 0 || page.Gap {
		t.Errorf("after the last: %v, gap %v", got, page.Gap)
	}
	before := func(position string, limit int) (texts []string) {
		t.Helper()
		page, err := l.read(h, t.Context(), store.ReadLogParams{Before: position, Limit: limit})
		if err != nil || page.Gap {
			t.Errorf("before %q: gap %v, %v", position, page.Gap, err)
		}
		for _, e := range page.Entries {
			texts = append(texts, l.text(e))
		}
		return texts
	}
	for i, want := range [][]string{nil, {"a"}, {"a", "b"}} {
		if got := before(l.id(all.Entries[i]), 10); !cmp.Equal(got, want) {
			t.Errorf("before entry %d: %v, want %v", i, got, want)
		}
	}
	if got := before(l.id(all.Entries[2]), 1); !cmp.Equal(got, []string{"b"}) {
		t.Errorf("the last one before the last: %v", got)
	}
	if got := before("0-0", 10); len(got) != 0 {
		t.Errorf("before all: %v", got)
	}
	for _, bad := range []string{"x", "1", "-", "1-", "1-x", "1-2x", "(1-1", "-1--1"} {
		if _, err := l.read(h, t.Context(), store.ReadLogParams{After: bad, Limit: 1}); !errors.Is(err, store.ErrBadPosition) {
			t.Errorf("after %q: %v, want ErrBadPosition", bad, err)
		}
		if _, err := l.read(h, t.Context(), store.ReadLogParams{Before: bad, Limit: 1}); !errors.Is(err, store.ErrBadPosition) {
			t.Errorf("before %q: %v, want ErrBadPosition", bad, err)
		}
	}
}

func (l storedLog[T]) testCap(t *testing.T, h *Harness) {
	l.appendTexts(t, h, "first")
	first, _ := l.readTexts(t, h, "", 1)
	batch := make([]string, store.MaxLogEntries/10)
	for i := range batch {
		batch[i] = fmt.Sprint(i)
	}
	for range 22 {
		l.appendTexts(t, h, batch...)
	}
	page, _ := l.readTexts(t, h, l.id(first.Entries[0]), 3*store.MaxLogEntries)
	if n := len(page.Entries); n < store.MaxLogEntries-len(batch) || n > store.MaxLogEntries+len(batch) || !page.Gap {
		t.Errorf("%d entries are kept, gap %v; want about %d, and a gap", n, page.Gap, store.MaxLogEntries)
	}
}

func testLogsAreSeparate(t *testing.T, h *Harness) {
	if err := h.Store.AppendEvents(t.Context(), []store.Event{{Kind: store.EventNodeLost}}); err != nil {
		t.Fatal(err)
	}
	if page, err := h.Store.ReadAudit(t.Context(), store.ReadLogParams{Limit: 10}); err != nil || len(page.Entries) != 0 {
		t.Errorf("the audit log after an event: %v, %v", page.Entries, err)
	}
	if err := h.Store.AppendAudit(t.Context(), []store.AuditEntry{{Action: "node.drain"}}); err != nil {
		t.Fatal(err)
	}
	if page, err := h.Store.ReadEvents(t.Context(), store.ReadLogParams{Limit: 10}); err != nil || len(page.Entries) != 1 {
		t.Errorf("the event log after an audit entry: %v, %v", page.Entries, err)
	}
}
