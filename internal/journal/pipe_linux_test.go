package journal_test

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestPipe: a pipe that nobody reads is refused at start, and one whose reader stops reading does not stop the recorder.
func TestPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.NewAudit(journal.AuditOptions{Output: path, Dropped: droppedCounter(), Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("a pipe without a reader was opened")
	}
	reader := openReader(t, path)
	defer reader.Close()
	if dropped := writeTo(t, path, longObjects()...); dropped == 0 {
		t.Error("nothing is counted, though the pipe holds less")
	}
}

// TestTornLine: a line that was written in part is ended before the next one, and written again.
func TestTornLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader := openReader(t, path)
	defer reader.Close()
	failed := make(firstWarning, 1)
	objects := longObjects()
	_, stop := startRecorder(t, path, failed, objects...) // so that they are written together: a short write is not torn
	<-failed
	found := make(map[string]bool)
	torn := 0
	lines := bufio.NewReader(reader)
	for !found[objects[len(objects)-1]] {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var e store.AuditEntry
		if json.Unmarshal(line, &e) == nil {
			found[e.Object] = true
		} else {
			torn++
		}
		if n := strings.Count(string(line), `"action"`); n > 1 {
			t.Errorf("a line has %d entries: %s", n, line)
		}
	}
	if dropped := stop(); torn == 0 || dropped != 0 {
		t.Errorf("%d lines are torn, %v entries were dropped: the test does not cover it", torn, dropped)
	}
	for _, object := range objects {
		if !found[object] {
			t.Fatalf("%s is missing, after %d entries", object, len(found))
		}
	}
}

// firstWarning is a log that receives a value at the first warning.
type firstWarning chan struct{}

func (firstWarning) Enabled(context.Context, slog.Level) bool { return true }

func (f firstWarning) Handle(context.Context, slog.Record) error {
	select {
	case f <- struct{}{}:
	default:
	}
	return nil
}

func (f firstWarning) WithAttrs([]slog.Attr) slog.Handler { return f }

func (f firstWarning) WithGroup(string) slog.Handler { return f }

// openReader opens a pipe to read from it.
func openReader(t *testing.T, path string) *os.File {
	t.Helper()
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	return reader
}

// longObjects makes more than a pipe holds, in lines that do not end where pages of the pipe do.
func longObjects() []string {
	objects := make([]string, 3000)
	for i := range objects {
		objects[i] = strconv.Itoa(i) + strings.Repeat("x", 101)
	}
	return objects
}
