package journal_test

import (
	"encoding/json"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/test/storetest"
)

// decode decodes entries as they are stored.
func decode[T any](bodies [][]byte) (entries []T, err error) {
	for _, body := range bodies {
		var e T
		if err = json.Unmarshal(body, &e); err != nil {
			break
		}
		entries = append(entries, e)
	}
	return entries, err
}

// keep appends an entry to a log, and returns what is read of it.
func keep[T any](l journal.Log[T]) func(t *testing.T, e T) T {
	return func(t *testing.T, e T) T {
		if err := l.Append(t.Context(), []T{e}); err != nil {
			t.Fatal(err)
		}
		page, err := l.Read(t.Context(), store.ReadLogParams{Limit: 1})
		if err != nil || len(page.Entries) != 1 {
			t.Fatalf("read: %v, %v", page, err)
		}
		return page.Entries[0]
	}
}

// TestLogsKeepEveryField: an entry that is read has every field of the one that was appended, and its position.
func TestLogsKeepEveryField(t *testing.T) {
	t.Parallel()
	st := memstore.New(store.Timing{})
	event, entry := keep(journal.EventLog(st)), keep(journal.AuditLog(st))
	storetest.Fields[store.Event]{Except: []string{"ID"}, Keep: func(t *testing.T, e store.Event) store.Event {
		e = event(t, e)
		if e.ID == "" {
			t.Error("an event has no position")
		}
		e.ID = ""
		return e
	}}.Check(t)
	storetest.Fields[store.AuditEntry]{Except: []string{"ID"}, Keep: func(t *testing.T, e store.AuditEntry) store.AuditEntry {
		e = entry(t, e)
		if e.ID == "" {
			t.Error("an audit entry has no position")
		}
		e.ID = ""
		return e
	}}.Check(t)
}

// TestEntriesOfAnotherVersion: an entry that cannot be read is left out.
func TestEntriesOfAnotherVersion(t *testing.T) {
	t.Parallel()
	st := memstore.New(store.Timing{})
	stored := [][]byte{[]byte(`{"kind":"node_lost","jobs":"many"}`), nil, []byte(`{"kind":"node_lost","jobs":1,"later":true}`)}
	if err := st.AppendLog(t.Context(), store.EventLog, stored); err != nil {
		t.Fatal(err)
	}
	page, err := journal.EventLog(st).Read(t.Context(), store.ReadLogParams{Limit: 10})
	if err != nil || len(page.Entries) != 1 || page.Entries[0].Kind != store.EventNodeLost || page.Entries[0].Jobs != 1 {
		t.Errorf("%+v, %v; want the last entry alone", page, err)
	}
}
