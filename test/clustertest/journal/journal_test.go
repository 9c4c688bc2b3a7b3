package journal

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEntriesAreReadAsWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []Entry{
		{At: 1, Source: "s", Kind: Terminal, Request: "r", Index: 3, Seq: 4, Job: "j", Attempt: 2, Node: "n", OK: true, Bytes: 5},
		{At: 2, Source: "n", Kind: JobOverAssigned, Held: 8, Slots: 8, Conn: 2, Code: "x", Recovered: true},
	}
	for _, e := range want {
		w.Add(e)
	}
	before := Now()
	w.Add(Entry{Source: "s", Kind: SessionStarted})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil || len(got) != 3 {
		t.Fatalf("read %v, %v; want 3 entries", got, err)
	}
	if got[2].At < before || got[2].At > Now() {
		t.Errorf("the entry without a time has the time %d, want between %d and %d", got[2].At, before, Now())
	}
	if diff := cmp.Diff(want, got[:2]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
