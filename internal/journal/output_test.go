package journal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// startRecorder starts a recorder with a file, after it recorded an entry for each of the first objects. stop writes what is queued, and
// returns how many entries were dropped.
func startRecorder(t *testing.T, path string, log slog.Handler, first ...string) (r *journal.Audit, stop func() float64) {
	t.Helper()
	counter := droppedCounter()
	r, err := journal.NewAudit(journal.AuditOptions{Instance: "i-1", Output: path, Dropped: counter, Log: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	recordAll(r, first...)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx, &fakeLog[store.AuditEntry]{name: store.AuditLog}) })
	return r, func() float64 {
		cancel()
		running.Wait()
		return testutil.ToFloat64(counter.WithLabelValues("file"))
	}
}

// recordAll records an entry for each object.
func recordAll(r *journal.Audit, objects ...string) {
	for _, object := range objects {
		r.Record(store.AuditEntry{Action: "node.drain", Object: object, Outcome: store.AuditOK})
	}
}

// writeTo records entries with these objects in a file, and waits until they are written.
func writeTo(t *testing.T, path string, objects ...string) (dropped float64) {
	t.Helper()
	r, stop := startRecorder(t, path, slog.DiscardHandler)
	recordAll(r, objects...)
	return stop()
}

// readObjects reads the objects of the entries in a file. Every line must be an entry.
func readObjects(t *testing.T, path string) (objects []string) {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(body) {
		var e store.AuditEntry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if e.At.IsZero() || e.Instance != "i-1" || e.Action != "node.drain" || e.Outcome != store.AuditOK {
			t.Errorf("%q lacks something", line)
		}
		objects = append(objects, e.Object)
	}
	return objects
}

func awaitObjects(t *testing.T, path string, want []string) {
	t.Helper()
	deadline, tick := time.Now().Add(20*time.Second), time.NewTicker(2*time.Millisecond)
	defer tick.Stop()
	for ; !cmp.Equal(readObjects(t, path), want); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s (-want +got):\n%s", path, cmp.Diff(want, readObjects(t, path)))
		}
	}
}

// TestFile: entries are lines of the file, which is appended to and which only its owner may read.
func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	writeTo(t, path, "a", "b")
	writeTo(t, path, "c<d>")
	if diff := cmp.Diff([]string{"a", "b", "c<d>"}, readObjects(t, path)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestReopen: after a rotation the entries go to a new file, and none is lost.
func TestReopen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	r, stop := startRecorder(t, path, slog.DiscardHandler)
	recordAll(r, "a", "b")
	awaitObjects(t, path, []string{"a", "b"})
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := r.Reopen(); err != nil {
		t.Fatal(err)
	}
	recordAll(r, "c", "d")
	stop()
	if diff := cmp.Diff([]string{"c", "d"}, readObjects(t, path)); diff != "" {
		t.Errorf("the new file (-want +got):\n%s", diff)
	}
}

// TestFailedReopen: if the file cannot be opened again, the open one stays in use.
func TestFailedReopen(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "logs")
	moved := dir + ".moved"
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r, stop := startRecorder(t, filepath.Join(dir, "audit.log"), slog.DiscardHandler)
	recordAll(r, "a")
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	if err := r.Reopen(); err == nil || !strings.HasPrefix(err.Error(), "audit.output: ") {
		t.Errorf("%v", err)
	}
	recordAll(r, "b")
	stop()
	if diff := cmp.Diff([]string{"a", "b"}, readObjects(t, filepath.Join(moved, "audit.log"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFullDisk: entries that cannot be written are counted, and the recorder ends.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	objects := make([]string, 5000)
	for i := range objects {
		objects[i] = strconv.Itoa(i)
	}
	if dropped := writeTo(t, "/dev/full", objects...); dropped != float64(len(objects)) {
		t.Errorf("%v of %d are counted", dropped, len(objects))
	}
}

func TestUnusableOutput(t *testing.T) {
	t.Parallel()
	_, err := journal.NewAudit(journal.AuditOptions{Output: filepath.Join(t.TempDir(), "missing", "audit.log"), Dropped: droppedCounter(), Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.HasPrefix(err.Error(), "audit.output: ") {
		t.Errorf("%v", err)
	}
}

// TestTornLineIsCutOff: an entry that was written in part before a crash does not make a line that is none. What is no entry stays.
func TestTornLineIsCutOff(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	writeTo(t, path, "node/a", "node/b")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut, want := range map[int][]string{
		1:              {"node/a", "node/b", "node/c"}, // it lacks its end of line only
		2:              {"node/a", "node/c"},
		len(whole) / 4: {"node/a", "node/c"},
	} {
		if err := os.WriteFile(path, whole[:len(whole)-cut], 0o600); err != nil {
			t.Fatal(err)
		}
		writeTo(t, path, "node/c")
		if diff := cmp.Diff(want, readObjects(t, path)); diff != "" {
			t.Errorf("after %d bytes were lost (-want +got):\n%s", cut, diff)
		}
	}
	if err := os.WriteFile(path, []byte("no entry"), 0o600); err != nil {
		t.Fatal(err)
	}
	writeTo(t, path, "node/d")
	if got, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(got), "no entry\n{") {
		t.Errorf("%s, %v", got, err)
	}
}
