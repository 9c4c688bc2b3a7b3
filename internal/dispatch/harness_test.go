package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var timing = store.Timing{
	Presence: 15 * time.Second, ReservedTTL: 5 * time.Second, Attempt: 15 * time.Second, Job: 30 * time.Second, Retention: 5 * time.Minute,
}

// world is one scheduler without its doors, over a memory store, with nodes that do as they are told.
type world struct {
	t        *testing.T
	mem      *memstore.Store
	store    *faulty
	fleet    *fleet.Fleet
	d        *dispatch.Dispatcher
	life     *nodes.Registry
	sent     *courier
	pick     *pick.Picker
	m        *telemetry.Metrics
	log      *slog.Logger
	outcomes outcomes
	// deafen stops following the store: from then on this instance's view grows old.
	deafen func()
}

// play runs a test in a world of its own, on a clock that costs nothing to turn.
func play(t *testing.T, fn func(w *world)) { playWith(t, nil, fn) }

func playWith(t *testing.T, change func(*dispatch.Config), fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(timing)
		w := &world{t: t, mem: mem, store: newFaulty(mem), fleet: fleet.New(timing.Presence), sent: newCourier()}
		policy := pick.Policy{SampleK: 20, ScanMax: 512, StaleAfter: timing.Presence, Shuffle: true, CPUMax: .95, GPUMax: .98, MemoryMax: .95}
		cfg := dispatch.Config{
			Instance: "i-test", DecideWithin: 400 * time.Millisecond, ACKTimeout: 2 * time.Second,
			AttemptTimeout: timing.Attempt, JobTimeout: timing.Job, MaxRetry: 2,
			DeliverWithin: timing.ReservedTTL,
		}
		if change != nil {
			change(&cfg)
		}
		log := slog.New(slog.DiscardHandler)
		m := telemetry.New()
		w.pick, w.m, w.log = pick.New(w.fleet, policy, nil), m, log
		w.d = dispatch.New(cfg, w.store, w.fleet, w.pick, w.sent, &w.outcomes, m, log)
		w.life = nodes.New(nodes.Config{Instance: "i-test", MarkFor: time.Minute, MarkRate: 60}, w.store, w.fleet, w.d, m, log)
		follower := &fleet.Follower{Fleet: w.fleet, Nodes: mem, Marks: mem, Log: log, OnSilent: w.life.MoveJobsOfSilent}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			follower.Run(ctx)
			close(done)
		}()
		w.deafen = func() {
			cancel()
			<-done
		}
		defer func() {
			w.d.Close()
			w.deafen()
		}()
		fn(w)
	})
}

// node registers a node that serves en↔zh.
func (w *world) node(id string, slots int, change ...func(*nodes.Patch)) {
	w.t.Helper()
	if err := w.register(id, slots, store.Activity{}, change...); err != nil {
		w.t.Fatalf("register %s: %v", id, err)
	}
}

func (w *world) register(id string, slots int, a store.Activity, change ...func(*nodes.Patch)) error {
	url := "http://127.0.0.1:9/" + id
	p := nodes.Patch{MaxJobs: &slots, Semantic: core.LangSet{"en", "zh"}, Callback: &url}
	for _, c := range change {
		c(&p)
	}
	_, err := w.life.Register(w.t.Context(), core.NodeID(id), p, a)
	return err
}

// beat sends a heartbeat; active nil does not list. It returns what the node should stop.
func (w *world) beat(id string, active []store.ActiveJob) []store.ActiveJob {
	w.t.Helper()
	cancel, err := w.life.Heartbeat(w.t.Context(), nodes.Heartbeat{
		Node: core.NodeID(id), Activity: store.Activity{Lists: active != nil, Active: active},
	})
	if err != nil {
		w.t.Fatalf("heartbeat %s: %v", id, err)
	}
	return cancel
}

// pass lets time go by while the named nodes keep sending heartbeats that list what the courier gave them
// and they have not let go of.
func (w *world) pass(d time.Duration, alive ...string) {
	w.t.Helper()
	for left := d; left > 0; left -= time.Second {
		time.Sleep(min(left, time.Second))
		for _, id := range alive {
			w.beat(id, w.sent.holding(id))
		}
		synctest.Wait()
	}
}

func spec(change ...func(*core.Spec)) core.Spec {
	s := core.Spec{Request: "req-1", Session: "room-1", Direction: core.Direction{Src: "en", Tgt: "zh"}, AudioRef: "blob://a"}
	for _, c := range change {
		c(&s)
	}
	return s
}

func request(id string) func(*core.Spec) {
	return func(s *core.Spec) { s.Request = core.RequestID(id) }
}

// dispatch dispatches and fails the test if it is refused.
func (w *world) dispatch(change ...func(*core.Spec)) dispatch.Placement {
	w.t.Helper()
	p, err := w.d.Dispatch(w.t.Context(), dispatch.Request{Spec: spec(change...)})
	if err != nil {
		w.t.Fatalf("dispatch: %v", err)
	}
	return p
}

// refused dispatches and returns the error it must give.
func (w *world) refused(change ...func(*core.Spec)) *wire.Error {
	w.t.Helper()
	p, err := w.d.Dispatch(w.t.Context(), dispatch.Request{Spec: spec(change...)})
	var e *wire.Error
	if !errors.As(err, &e) {
		w.t.Fatalf("dispatch: %+v, %v; want a refusal", p, err)
	}
	return e
}

func report(p dispatch.Placement) dispatch.Report {
	return dispatch.Report{Job: p.Job, Holder: core.Holder{Attempt: p.Attempt, Node: p.Node}}
}

func (w *world) ack(p dispatch.Placement) error { return w.d.Ack(w.t.Context(), report(p)) }

func (w *world) done(p dispatch.Placement) error {
	w.sent.drop(p)
	return w.d.Done(w.t.Context(), report(p), []byte(`{"text_tgt":"x"}`))
}

func (w *world) fail(p dispatch.Placement, reason core.Reason) error {
	w.sent.drop(p)
	return w.d.Fail(w.t.Context(), report(p), reason, "")
}

func (w *world) job(id core.JobID) *core.Job {
	w.t.Helper()
	j, err := w.d.Job(w.t.Context(), id)
	if err != nil {
		w.t.Fatalf("job %s: %v", id, err)
	}
	return j
}

// placed is where a job is now.
func (w *world) placed(id core.JobID) dispatch.Placement {
	j := w.job(id)
	return dispatch.Placement{Job: id, Node: j.Node, Attempt: j.Attempt}
}

func (w *world) placement(job core.JobID, node core.NodeID, attempt int) dispatch.Placement {
	return dispatch.Placement{Job: job, Node: node, Attempt: attempt}
}

func (w *world) wantState(id core.JobID, state core.State, reason core.Reason) {
	w.t.Helper()
	if j := w.job(id); j.State != state || j.Reason != reason {
		w.t.Errorf("job is %s %q, want %s %q; history %+v", j.State, j.Reason, state, reason, j.History)
	}
}

func (w *world) inFlight(id string) int {
	w.t.Helper()
	var o [1]store.Occupancy
	if err := w.mem.Probe(w.t.Context(), []core.NodeID{core.NodeID(id)}, o[:]); err != nil {
		w.t.Fatal(err)
	}
	return o[0].InFlight()
}

func (w *world) wantFree(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		if n := w.inFlight(id); n != 0 {
			w.t.Errorf("%s still has %d slots taken", id, n)
		}
	}
}

func wantCode(t *testing.T, err error, code wire.Code) {
	t.Helper()
	var e *wire.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("error %v, want %s", err, code)
	}
}

// courier is a transport that remembers what it took where, and fails as it is told.
type courier struct {
	mu     sync.Mutex
	log    []wire.Assignment
	has    map[string]map[store.ActiveJob]bool
	errs   map[string]error         // what delivering to a node gives
	hook   func(a *wire.Assignment) // called with each delivery that arrives
	cancel []store.ActiveJob
}

func newCourier() *courier {
	return &courier{has: make(map[string]map[store.ActiveJob]bool), errs: make(map[string]error)}
}

var errLost = errors.New("the connection broke after the request was sent")

// Deliver implements dispatch.Transport.
func (c *courier) Deliver(ctx context.Context, to *core.Node, a *wire.Assignment) error {
	c.mu.Lock()
	err := c.errs[a.NodeID]
	hook := c.hook
	if err == nil || errors.Is(err, errLost) {
		c.log = append(c.log, *a)
		if c.has[a.NodeID] == nil {
			c.has[a.NodeID] = make(map[store.ActiveJob]bool)
		}
		c.has[a.NodeID][store.ActiveJob{Job: core.JobID(a.JobID), Attempt: a.AttemptID}] = true
	}
	c.mu.Unlock()
	if errors.Is(err, context.DeadlineExceeded) {
		<-ctx.Done()
		return ctx.Err()
	}
	if err == nil && hook != nil {
		hook(a)
	}
	if string(to.ID) != a.NodeID {
		return fmt.Errorf("assignment for %s went to %s", a.NodeID, to.ID)
	}
	return err
}

// Cancel implements dispatch.Transport.
func (c *courier) Cancel(_ context.Context, _ core.NodeID, job core.JobID, attempt int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel = append(c.cancel, store.ActiveJob{Job: job, Attempt: attempt})
}

func (c *courier) fails(node string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs[node] = err
}

func (c *courier) deliveries() []wire.Assignment {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]wire.Assignment(nil), c.log...)
}

// holding lists what a node has in hand.
func (c *courier) holding(node string) []store.ActiveJob {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := []store.ActiveJob{}
	for job := range c.has[node] {
		list = append(list, job)
	}
	return list
}

// drop takes a job out of a node's hands.
func (c *courier) drop(p dispatch.Placement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.has[string(p.Node)], store.ActiveJob{Job: p.Job, Attempt: p.Attempt})
}

// remove makes the store and this instance forget a node.
func (w *world) remove(id string) {
	w.t.Helper()
	if err := w.mem.Remove(w.t.Context(), store.RemoveParams{Node: core.NodeID(id)}); err != nil {
		w.t.Error(err)
	}
}
