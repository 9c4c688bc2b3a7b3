package storetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// logBehaviours is the specification of Logs.
var logBehaviours = []behaviour{
	{"entries are read in their order, from a position or the newest", testReadLog},
	{"only the newest entries are kept, and a reader learns of the gap", testLogCap},
	{"each log has its own entries", testLogsAreSeparate},
}

// appendLog appends entries with these texts to the event log.
func (h *Harness) appendLog(t *testing.T, texts ...string) {
	t.Helper()
	bodies := make([][]byte, len(texts))
	for i, text := range texts {
		bodies[i] = []byte(text)
	}
	if err := h.Store.AppendLog(t.Context(), store.EventLog, bodies); err != nil {
		t.Fatal(err)
	}
}

// readLog reads a part of the event log, and returns the texts, too.
func (h *Harness) readLog(t *testing.T, p store.ReadLogParams) (page store.LogPage, texts []string) {
	t.Helper()
	page, err := h.Store.ReadLog(t.Context(), store.EventLog, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		texts = append(texts, string(e.Body))
	}
	return page, texts
}

func testReadLog(t *testing.T, h *Harness) {
	if page, _ := h.readLog(t, store.ReadLogParams{Limit: 10}); len(page.Entries) != 0 {
		t.Fatalf("an empty log has %v", page.Entries)
	}
	h.appendLog(t, "a", "b")
	h.appendLog(t, "c")
	all, texts := h.readLog(t, store.ReadLogParams{Limit: 10})
	if diff := cmp.Diff([]string{"a", "b", "c"}, texts); diff != "" {
		t.Fatalf("all entries (-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		name string
		p    store.ReadLogParams
		want []string
	}{
		{"the newest two", store.ReadLogParams{Limit: 2}, []string{"b", "c"}},
		{"one after the first", store.ReadLogParams{After: all.Entries[0].ID, Limit: 1}, []string{"b"}},
		{"after the last", store.ReadLogParams{After: all.Entries[2].ID, Limit: 10}, nil},
		{"before the first", store.ReadLogParams{Before: all.Entries[0].ID, Limit: 10}, nil},
		{"before the second", store.ReadLogParams{Before: all.Entries[1].ID, Limit: 10}, []string{"a"}},
		{"before the last", store.ReadLogParams{Before: all.Entries[2].ID, Limit: 10}, []string{"a", "b"}},
		{"the last one before the last", store.ReadLogParams{Before: all.Entries[2].ID, Limit: 1}, []string{"b"}},
		{"before all", store.ReadLogParams{Before: "0-0", Limit: 10}, nil},
	} {
		if page, got := h.readLog(t, c.p); !cmp.Equal(got, c.want) || page.Gap {
			t.Errorf("%s: %v, gap %v; want %v", c.name, got, page.Gap, c.want)
		}
	}
	for _, bad := range []string{"x", "1", "-", "1-", "1-x", "1-2x", "(1-1", "-1--1"} {
		for _, p := range []store.ReadLogParams{{After: bad, Limit: 1}, {Before: bad, Limit: 1}} {
			if _, err := h.Store.ReadLog(t.Context(), store.EventLog, p); !errors.Is(err, store.ErrBadPosition) {
				t.Errorf("%+v: %v, want ErrBadPosition", p, err)
			}
		}
	}
}

func testLogCap(t *testing.T, h *Harness) {
	h.appendLog(t, "first")
	first, _ := h.readLog(t, store.ReadLogParams{Limit: 1})
	batch := make([]string, store.MaxLogEntries/10)
	for i := range batch {
		batch[i] = fmt.Sprint(i)
	}
	for range 22 {
		h.appendLog(t, batch...)
	}
	page, _ := h.readLog(t, store.ReadLogParams{After: first.Entries[0].ID, Limit: 3 * store.MaxLogEntries})
	if n := len(page.Entries); n < store.MaxLogEntries-len(batch) || n > store.MaxLogEntries+len(batch) || !page.Gap {
		t.Errorf("%d entries are kept, gap %v; want about %d, and a gap", n, page.Gap, store.MaxLogEntries)
	}
}

func testLogsAreSeparate(t *testing.T, h *Harness) {
	logs := []store.Log{store.EventLog, store.AuditLog}
	for i, log := range logs {
		if page, err := h.Store.ReadLog(t.Context(), log, store.ReadLogParams{Limit: 10}); err != nil || len(page.Entries) != 0 {
			t.Errorf("the log %s before its first entry: %v, %v", log, page.Entries, err)
		}
		if err := h.Store.AppendLog(t.Context(), log, [][]byte{[]byte(log)}); err != nil {
			t.Fatal(err)
		}
		for _, written := range logs[:i+1] {
			page, err := h.Store.ReadLog(t.Context(), written, store.ReadLogParams{Limit: 10})
			if err != nil || len(page.Entries) != 1 || string(page.Entries[0].Body) != string(written) {
				t.Errorf("the log %s: %v, %v", written, page.Entries, err)
			}
		}
	}
}
