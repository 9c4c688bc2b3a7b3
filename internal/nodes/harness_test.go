package nodes_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var timing = store.Timing{
	Presence: 15 * time.Second, ReservedTTL: 5 * time.Second, Attempt: 15 * time.Second, Job: 30 * time.Second, Retention: 5 * time.Minute,
}

const retention = 10 * time.Minute

// harness is a registry over a memory store, with fake jobs.
type harness struct {
	t        *testing.T
	mem      *memstore.Store
	store    *failingStore
	fleet    *fleet.Fleet
	jobs     *fakeJobs
	metrics  *telemetry.Metrics
	registry *nodes.Registry
	queued   fakeQueue
}

// fakeQueue keeps the services that were reported as unavailable.
type fakeQueue struct{ services []core.UnavailableService }

func (q *fakeQueue) Enqueue(s core.UnavailableService) { q.services = append(q.services, s) }

// run runs a test with a harness of its own, on a fake clock.
func run(t *testing.T, fn func(t *testing.T, h *harness)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(timing)
		h := &harness{t: t, mem: mem, store: &failingStore{Store: mem}, fleet: fleet.New(timing.Presence), jobs: &fakeJobs{},
			metrics: telemetry.New()}
		h.registry = h.registryOf("i-1", h.store)
		time.Sleep(time.Minute) // older than any job: the store knows every lease
		fn(t, h)
	})
}

// registryOf makes the registry of an instance that shares the fleet and the jobs.
func (h *harness) registryOf(instance core.InstanceID, st nodes.Store) *nodes.Registry {
	cfg := nodes.Config{
		Instance: instance, Heartbeat: 5 * time.Second, Presence: timing.Presence, Retention: retention, Unavailable: &h.queued,
	}
	return nodes.New(cfg, st, h.fleet, h.jobs.parts(), h.metrics, slog.New(slog.DiscardHandler))
}

// changeOf makes a full declaration of an HTTP node that serves en↔zh.
func changeOf(slots int, changes ...func(*core.Change)) core.Change {
	p := core.Change{
		Declaration: core.Declaration{
			MaxJobs: slots, Capability: core.Capability{Semantic: core.LangSet{"en", "zh"}}, Callback: "http://127.0.0.1:9/",
		},
		Has: core.Fields{MaxJobs: true},
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

// add registers a node that lists no jobs.
func (h *harness) add(id core.NodeID, slots int, changes ...func(*core.Change)) *core.Node {
	h.t.Helper()
	return h.register(id, changeOf(slots, changes...), nodes.Caller{})
}

// addConnected registers a node that is connected to an instance instead of having a callback URL.
func (h *harness) addConnected(id core.NodeID, slots int, owner core.InstanceID, connection uint64, changes ...func(*core.Change)) *core.Node {
	h.t.Helper()
	c := changeOf(slots, changes...)
	c.Callback, c.Owner = "", owner
	return h.register(id, c, nodes.Caller{Connection: connection})
}

func (h *harness) register(id core.NodeID, c core.Change, by nodes.Caller) *core.Node {
	h.t.Helper()
	r, err := h.registry.Register(h.t.Context(), id, c, by, store.Activity{Lists: true})
	if err != nil {
		h.t.Fatalf("register %s: %v", id, err)
	}
	return r.Node
}

// reserve takes a slot of a node for a job and makes it run, and waits until the lease counts as old.
func (h *harness) reserve(id core.NodeID, jobs ...core.JobID) {
	h.t.Helper()
	for _, job := range jobs {
		n := h.fleet.Node(id)
		lease := core.LeaseRef{Node: id, Job: job, Attempt: 1, Token: "i-1.1"}
		r, err := h.mem.Reserve(h.t.Context(),
			store.ReserveParams{Lease: lease, Epoch: n.Declared().Epoch, Revision: n.Declared().Revision})
		if err != nil || r.Verdict != store.OK {
			h.t.Fatalf("reserve %s: %v, %v", id, r.Verdict, err)
		}
		if held, err := h.mem.Commit(h.t.Context(), lease); err != nil || !held {
			h.t.Fatalf("commit %s: %v, %v", id, held, err)
		}
	}
}

// admit limits the slots of a node that may be granted.
func (h *harness) admit(id core.NodeID, slots int) {
	h.t.Helper()
	limit := core.Admission{Limited: true, Slots: slots, Reason: core.AdmissionFailing, Times: 1}
	if _, admitted, err := h.mem.Admit(h.t.Context(), store.AdmitParams{Node: id, Fence: 1, Admission: limit}); err != nil || !admitted {
		h.t.Fatal(admitted, err)
	}
	h.fleet.Update(h.stored(id))
}

// stored returns a node from the store.
func (h *harness) stored(id core.NodeID) store.NodeStatus {
	h.t.Helper()
	s, err := store.ReadNode(h.t.Context(), h.mem, id)
	if err != nil {
		h.t.Fatalf("node %s: %v", id, err)
	}
	return s
}

func wantCode(t *testing.T, err error, code wire.Code) {
	t.Helper()
	var e *wire.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("error %v, want %s", err, code)
	}
}

// fakeJobs records what the registry passes to the dispatcher.
type fakeJobs struct {
	mu sync.Mutex // for tests that register several nodes at once

	epoch                          core.Epoch
	rebound, strays, orphans, late []core.JobID
	moved                          []core.NodeID
	notified                       []core.NodeID
	failed                         []dispatch.Report

	stop       []store.ActiveJob // the result of RebindJobs and of ResolveStrays
	rebindErr  error
	moveErr    error
	holds      bool
	checkErr   error
	failReason core.Reason
}

func (f *fakeJobs) parts() nodes.Jobs { return nodes.Jobs{Moves: f, Reports: f, Slots: f} }

func jobsOf(leases []core.Lease) []core.JobID {
	var ids []core.JobID
	for _, l := range leases {
		ids = append(ids, l.Job)
	}
	slices.Sort(ids)
	return ids
}

func (f *fakeJobs) RebindJobs(_ context.Context, epoch core.Epoch, leases []core.Lease) ([]store.ActiveJob, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.epoch, f.rebound = epoch, append(f.rebound, jobsOf(leases)...)
	return f.stopOf(leases), f.rebindErr
}

func (f *fakeJobs) ResolveStrays(_ context.Context, _ core.Epoch, leases []core.Lease, _ bool) []store.ActiveJob {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.strays = append(f.strays, jobsOf(leases)...)
	return f.stopOf(leases)
}

// stopOf returns the jobs of stop that are among the leases.
func (f *fakeJobs) stopOf(leases []core.Lease) []store.ActiveJob {
	var stop []store.ActiveJob
	for _, l := range leases {
		if j := (store.ActiveJob{Job: l.Job, Attempt: l.Attempt}); slices.Contains(f.stop, j) {
			stop = append(stop, j)
		}
	}
	return stop
}

func (f *fakeJobs) MoveOrphans(leases []core.Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orphans = append(f.orphans, jobsOf(leases)...)
}

func (f *fakeJobs) MoveOverdue(leases []core.Lease) { f.late = append(f.late, jobsOf(leases)...) }

func (f *fakeJobs) MoveJobsOfNode(_ context.Context, node core.NodeID) (int, error) {
	f.moved = append(f.moved, node)
	return 1, f.moveErr
}

func (f *fakeJobs) SlotSeen(n *fleet.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n != nil {
		f.notified = append(f.notified, n.ID())
	}
}

func (f *fakeJobs) CheckHolder(context.Context, dispatch.Report) (bool, error) {
	return f.holds, f.checkErr
}

func (f *fakeJobs) Fail(_ context.Context, r dispatch.Report, reason core.Reason, _ string) error {
	f.failed, f.failReason = append(f.failed, r), reason
	return nil
}

// failingStore is a store of which all writes and reads fail while down is set.
type failingStore struct {
	store.Store
	down atomic.Bool
	slow atomic.Pointer[chan struct{}] // registrations wait until it is closed; nil: they do not wait
}

func (s *failingStore) err() error {
	if s.down.Load() {
		return store.ErrDown
	}
	return nil
}

func (s *failingStore) Register(ctx context.Context, p store.RegisterParams) (store.Registration, error) {
	if wait := s.slow.Load(); wait != nil {
		<-*wait
	}
	if err := s.err(); err != nil {
		return store.Registration{}, err
	}
	return s.Store.Register(ctx, p)
}

func (s *failingStore) Heartbeat(ctx context.Context, p store.HeartbeatParams) (store.HeartbeatResult, error) {
	if err := s.err(); err != nil {
		return store.HeartbeatResult{}, err
	}
	return s.Store.Heartbeat(ctx, p)
}

func (s *failingStore) Connect(ctx context.Context, p store.ConnectParams) (*core.Node, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Connect(ctx, p)
}

func (s *failingStore) Drain(ctx context.Context, p store.DrainParams) (*core.Node, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Drain(ctx, p)
}

func (s *failingStore) Nodes(ctx context.Context, ids ...core.NodeID) ([]store.NodeStatus, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Nodes(ctx, ids...)
}

func (s *failingStore) Overdue(ctx context.Context, after time.Duration) (store.Overdue, error) {
	if err := s.err(); err != nil {
		return store.Overdue{}, err
	}
	return s.Store.Overdue(ctx, after)
}

func (s *failingStore) Orphans(ctx context.Context, ids ...core.NodeID) ([]core.Lease, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Orphans(ctx, ids...)
}

func (s *failingStore) Probe(ctx context.Context, ids []core.NodeID, into []store.Occupancy) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.Probe(ctx, ids, into)
}
