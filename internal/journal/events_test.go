package journal_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// fakeLog is a log of the store that can be unavailable.
type fakeLog[T any] struct {
	store.Logs
	name    store.Log
	mu      sync.Mutex
	down    bool
	entries []T
}

func (l *fakeLog[T]) AppendLog(_ context.Context, log store.Log, bodies [][]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return store.ErrDown
	}
	if log != l.name {
		return fmt.Errorf("entries of the log %s in the log %s", l.name, log)
	}
	entries, err := decode[T](bodies)
	l.entries = append(l.entries, entries...)
	return err
}

func (l *fakeLog[T]) setDown(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

// take returns what was written since the last call, in order.
func (l *fakeLog[T]) take() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries := l.entries
	l.entries = nil
	return entries
}

// details returns the details of what was written, in order. They stay in the log.
func details(l *fakeLog[store.Event]) (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		all = append(all, e.Detail)
	}
	return all
}

// runEvents runs a test with a recorder that writes to a log.
func runEvents(t *testing.T, fn func(r *journal.Events, l *fakeLog[store.Event], dropped prometheus.Counter, stop func())) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dropped := prometheus.NewCounter(prometheus.CounterOpts{Name: "dropped"})
		r, l := journal.NewEvents("i-1", dropped, slog.New(slog.DiscardHandler)), &fakeLog[store.Event]{name: store.EventLog}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.Run(ctx, l) })
		stop := func() {
			cancel()
			running.Wait()
		}
		defer stop()
		fn(r, l, dropped, stop)
	})
}

// Events that happen while the store is unavailable are written afterwards, in their order and with their times.
func TestEventsWaitForTheStore(t *testing.T) {
	runEvents(t, func(r *journal.Events, l *fakeLog[store.Event], dropped prometheus.Counter, _ func()) {
		r.Record(store.Event{Detail: "before"})
		synctest.Wait()
		l.setDown(true)
		began := time.Now()
		r.Record(store.Event{Kind: store.EventStoreDown, Detail: "down"})
		time.Sleep(time.Minute)
		r.Record(store.Event{Detail: "meanwhile"})
		l.setDown(false)
		time.Sleep(10 * time.Second)
		if diff := cmp.Diff([]string{"before", "down", "meanwhile"}, details(l)); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
		if e := l.entries[1]; !e.At.Equal(began) || e.Instance != "i-1" {
			t.Errorf("the outage: %+v", e)
		}
		if n := testutil.ToFloat64(dropped); n != 0 {
			t.Errorf("%v were dropped", n)
		}
	})
}

// A recorder that cannot write never blocks its callers, and counts what it drops.
func TestFullQueueDropsEvents(t *testing.T) {
	runEvents(t, func(r *journal.Events, l *fakeLog[store.Event], dropped prometheus.Counter, stop func()) {
		l.setDown(true)
		const n = 10_000
		for range n {
			r.Record(store.Event{Detail: "x"})
		}
		stop()
		if got := testutil.ToFloat64(dropped); got != n {
			t.Errorf("%v of %d events are counted as dropped, and %d were written", got, n, len(details(l)))
		}
	})
}

// What is queued when the instance stops is written.
func TestLastEventsAreWritten(t *testing.T) {
	runEvents(t, func(r *journal.Events, l *fakeLog[store.Event], _ prometheus.Counter, stop func()) {
		l.setDown(true)
		r.Record(store.Event{Detail: "a"})
		synctest.Wait() // it is being tried
		r.Record(store.Event{Detail: "b"})
		l.setDown(false)
		stop()
		if diff := cmp.Diff([]string{"a", "b"}, details(l)); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
	})
}

// A nil recorder records nothing.
func TestNilEvents(t *testing.T) {
	t.Parallel()
	var r *journal.Events
	r.Record(store.Event{})
}
