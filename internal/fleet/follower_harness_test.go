package fleet

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

// The tests of a Follower run in a synctest bubble: time advances when all goroutines wait.

// maxPollInterval is the maximum interval between polls, jitter included.
const maxPollInterval = pollInterval + pollInterval/10

// faultyReader is a real store that can be made to fail, to lose changes and to delay them.
type faultyReader struct {
	*memstore.Store

	mu      sync.Mutex
	failing map[string]int // method → how many calls still fail
	calls   map[string]int
	deaf    bool          // changes are lost without a word
	hold    chan struct{} // not nil: changes wait until it is closed
	gaps    int
	read    int // nodes that were read with their declarations
	overdue int // nodes that were read because they were overdue

	afterReading func() // called when the list of nodes was read and is not yet handed over
}

var errAway = errors.New("away")

func (c *faultyReader) fail(method string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[method]++
	if c.failing[method] > 0 {
		c.failing[method]--
		return errAway
	}
	return nil
}

func (c *faultyReader) called(method string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[method]
}

func (c *faultyReader) Nodes(ctx context.Context, ids ...core.NodeID) ([]store.NodeStatus, error) {
	if err := c.fail("Nodes"); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.read += len(ids)
	c.mu.Unlock()
	return c.Store.Nodes(ctx, ids...)
}

func (c *faultyReader) Digests(ctx context.Context) ([]store.NodeDigest, error) {
	if err := c.fail("Digests"); err != nil {
		return nil, err
	}
	all, err := c.Store.Digests(ctx)
	if c.afterReading != nil {
		c.afterReading()
	}
	return all, err
}

func (c *faultyReader) Overdue(ctx context.Context, after time.Duration) (store.Overdue, error) {
	if after == 0 {
		if err := c.fail("all"); err != nil {
			return store.Overdue{}, err
		}
		return c.Store.Overdue(ctx, 0)
	}
	if err := c.fail("Overdue"); err != nil {
		return store.Overdue{}, err
	}
	overdue, err := c.Store.Overdue(ctx, after)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.overdue += len(overdue.Nodes)
	return overdue, err
}

func (c *faultyReader) Marked(ctx context.Context, ids ...core.NodeID) ([]store.Mark, error) {
	if err := c.fail("Marked"); err != nil {
		return nil, err
	}
	return c.Store.Marked(ctx, ids...)
}

func (c *faultyReader) Watch(ctx context.Context, ready func(), fn func(store.Change)) error {
	if err := c.fail("Watch"); err != nil {
		return err
	}
	return c.Store.Watch(ctx, ready, func(change store.Change) {
		c.mu.Lock()
		hold, deaf := c.hold, c.deaf
		if change.Gap {
			c.gaps++
		}
		c.mu.Unlock()
		if hold != nil {
			select {
			case <-hold:
			case <-ctx.Done():
			}
		}
		if !deaf {
			fn(change)
		}
	})
}

// followerHarness runs a Follower over a real store.
type followerHarness struct {
	t      *testing.T
	store  *faultyReader
	fleet  *Fleet
	stop   context.CancelFunc
	done   chan struct{}
	start  time.Time
	silent func(core.NodeID) error // what the callback answers; nil: no error

	mu      sync.Mutex
	reports []silentReport
}

// silentReport is one call of OnSilent.
type silentReport struct {
	Node core.NodeID
	At   time.Duration // since the start
}

// newFollowerHarness makes a Follower that is not started, so that a test can set up the store.
func newFollowerHarness(t *testing.T) *followerHarness {
	t.Helper()
	timing := store.Timing{Presence: presence, ReservedTTL: 5 * time.Second, Attempt: presence, Job: 2 * presence, Retention: time.Minute}
	return &followerHarness{
		t: t, fleet: New(presence), start: time.Now(),
		store: &faultyReader{Store: memstore.New(timing), failing: make(map[string]int), calls: make(map[string]int)},
	}
}

// run starts the Follower; the end of the test stops it.
func (f *followerHarness) run() {
	ctx, cancel := context.WithCancel(context.Background())
	f.stop, f.done = cancel, make(chan struct{})
	follower := &Follower{
		Fleet: f.fleet, Nodes: f.store, Marks: f.store, Log: slog.New(slog.DiscardHandler),
		OnSilent: func(_ context.Context, ids []core.NodeID) map[core.NodeID]error {
			f.mu.Lock()
			defer f.mu.Unlock()
			unhandled := make(map[core.NodeID]error)
			for _, id := range ids {
				f.reports = append(f.reports, silentReport{id, time.Since(f.start)})
				if f.silent == nil {
					continue
				}
				if err := f.silent(id); err != nil {
					unhandled[id] = err
				}
			}
			return unhandled
		},
	}
	go func() {
		defer close(f.done)
		follower.Run(ctx)
	}()
	f.t.Cleanup(func() {
		cancel()
		<-f.done
	})
}

// reported returns the reports so far, in order.
func (f *followerHarness) reported() []silentReport {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]silentReport{}, f.reports...)
}

// register registers a node in the store, not in the view.
func (f *followerHarness) register(id core.NodeID, changes ...func(*core.Node)) store.Registration {
	f.t.Helper()
	r, err := f.store.Register(context.Background(), store.RegisterParams{Node: *declared(id, changes...), Load: core.UnknownLoad})
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// heartbeat sends heartbeats to the store that change nothing.
func (f *followerHarness) heartbeat(ids ...core.NodeID) {
	f.t.Helper()
	for _, id := range ids {
		pulse, err := f.store.Heartbeat(context.Background(), store.HeartbeatParams{Node: id, Load: core.UnknownLoad})
		if err != nil || pulse.Verdict != store.OK {
			f.t.Fatalf("heartbeat of %s: %v, %v", id, pulse.Verdict, err)
		}
	}
}

// advance advances the time while the nodes send heartbeats.
func (f *followerHarness) advance(d time.Duration, ids ...core.NodeID) {
	f.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		f.heartbeat(ids...)
		time.Sleep(min(time.Second, time.Until(end)))
	}
}

func (f *followerHarness) remove(id core.NodeID) {
	f.t.Helper()
	if _, err := f.store.Remove(context.Background(), store.RemoveParams{Node: id}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *followerHarness) drain(id core.NodeID, drained bool) {
	f.t.Helper()
	if _, err := f.store.Drain(context.Background(), store.DrainParams{Node: id, Drained: drained}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *followerHarness) admit(id core.NodeID, fence int64, a core.Admission) {
	f.t.Helper()
	p := store.AdmitParams{Node: id, Fence: fence, Admission: a, For: time.Minute}
	if _, admitted, err := f.store.Admit(context.Background(), p); err != nil || !admitted {
		f.t.Fatal(admitted, err)
	}
}

func (f *followerHarness) mark(id core.NodeID, service string, d time.Duration) {
	f.t.Helper()
	n, err := store.ReadNode(context.Background(), f.store.Store, id)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.store.Mark(context.Background(), store.Mark{Node: id, Service: service, Epoch: n.Node.Epoch, NodeVersion: n.Node.Version, For: d}); err != nil {
		f.t.Fatal(err)
	}
}
