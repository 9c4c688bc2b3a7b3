package telemetry

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/run"
)

// TestSlowLockWaits checks that every contended wait is in the histogram, that only slow ones are counted and logged, each lock once a
// second, and that a flood of them neither blocks nor is lost to the counter. It is not parallel: Run observes the locks of the whole process, and
// a goroutine outside of the bubble must not send to its channel.
func TestSlowLockWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		m := New()
		l := NewLockWaits(&m.Locks, 10*time.Millisecond, slog.New(slog.NewTextHandler(&out, nil)))
		for range 3 * maxSlowWaits {
			l.observe("session", 11*time.Millisecond) // nobody logs yet
		}
		l.observe("session", 10*time.Millisecond)
		go l.Run(t.Context())
		synctest.Wait()
		l.observe("memstore_node", 25*time.Millisecond)
		synctest.Wait()
		time.Sleep(time.Second)
		l.observe("session", 12*time.Millisecond)
		synctest.Wait()
		l.observe("session", 13*time.Millisecond)
		synctest.Wait()

		var logged []string
		for line := range strings.Lines(out.String()) {
			_, attrs, _ := strings.Cut(line, "lock=")
			logged = append(logged, strings.TrimSpace(attrs))
		}
		want := []string{
			"session waited_ms=11 threshold_ms=10", "memstore_node waited_ms=25 threshold_ms=10", "session waited_ms=12 threshold_ms=10",
		}
		if diff := cmp.Diff(want, logged); diff != "" {
			t.Errorf("warnings (-want +got):\n%s", diff)
		}
		if got := m.SlowLockWait.WithLabelValues("session").Load(); got != 3*maxSlowWaits+2 {
			t.Errorf("%d slow waits were counted, want %d", got, 3*maxSlowWaits+2)
		}
		_, series := gather(t, m.Registry)
		if got := series["lingua_lock_wait_seconds{lock=session}"]; got != 3*maxSlowWaits+3 {
			t.Errorf("the histogram has %v waits, want %d", got, 3*maxSlowWaits+3)
		}
	})
}

// TestEveryLockHasACounter checks that the rate of a lock begins at zero, also if it is made after the metrics.
func TestEveryLockHasACounter(t *testing.T) {
	t.Parallel()
	m := New()
	mu := run.NewMutex("late_lock_of_this_test")
	mu.Lock()
	_, series := gather(t, m.Registry)
	if n, ok := series["scheduler_slow_lock_wait_total{lock=late_lock_of_this_test}"]; !ok || n != 0 {
		t.Errorf("the lock has a counter: %t, of %v, want 0", ok, n)
	}
}

// TestRunObservesTheLocksOfTheProcess checks that a contended lock reaches the metrics while Run runs, and not after it.
func TestRunObservesTheLocksOfTheProcess(t *testing.T) {
	t.Parallel()
	m := New()
	l := NewLockWaits(&m.Locks, time.Hour, slog.New(slog.DiscardHandler))
	stopped := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer close(stopped)
		l.Run(ctx)
	}()
	waits := func() float64 {
		_, series := gather(t, m.Registry)
		return series["lingua_lock_wait_seconds{lock=tasks_of_this_test}"]
	}
	for waits() == 0 { // until Run observes
		contend()
	}
	stop()
	<-stopped
	before := waits()
	contend()
	if after := waits(); after != before {
		t.Errorf("%v waits were observed after the end, want none", after-before)
	}
}

// contend holds a lock while another goroutine is likely to ask for it.
func contend() {
	mu := run.NewMutex("tasks_of_this_test")
	mu.Lock()
	done := make(chan struct{})
	go func() {
		mu.Lock()
		mu.Unlock() //nolint:staticcheck // waiting for it is the point
		close(done)
	}()
	runtime.Gosched()
	mu.Unlock()
	<-done
}
