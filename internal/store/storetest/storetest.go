// Package storetest is the suite that every store must pass. It is a normal package: a backend hands it a way
// to run a test with a fresh store, and gets every promise of the seam tested against it.
//
// Time is the backend's: one with a clock it can turn passes it through Wait, one with a real clock sleeps.
// The suite speaks of durations only as parts of the store's own timing.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Harness is a fresh store under test.
type Harness struct {
	Store  store.Store
	Timing store.Timing
	// Wait lets time pass on the store's clock.
	Wait func(time.Duration)
	// Settle waits until what the store does beside its callers is done; nil: it does nothing of the kind.
	Settle func()
	// Slack is how exactly the backend can wait.
	Slack time.Duration
	// Repeats says that every write is carried out twice, as if its first reply had been lost.
	Repeats bool
	// Workers and Rounds say how much the property tests do.
	Workers, Rounds int
}

// Backend runs a test with a fresh store.
type Backend func(t *testing.T, fn func(t *testing.T, h *Harness))

// Exercise runs the whole suite.
func Exercise(t *testing.T, backend Backend) {
	suites := []struct {
		name string
		fn   func(t *testing.T, run func(name string, fn func(t *testing.T, h *Harness)))
	}{
		{"nodes", exerciseNodes},
		{"heartbeat", exerciseHeartbeat},
		{"unlisted", exerciseUnlisted},
		{"register", exerciseRegister},
		{"connections", exerciseConnections},
		{"ledger", exerciseLedger},
		{"jobs", exerciseJobs},
		{"watch", exerciseWatch},
		{"board", exerciseBoard},
		{"sessions", exerciseSessions},
		{"incarnations", exerciseIncarnations},
		{"mail", exerciseMail},
		{"chaos", exerciseChaos},
	}
	for _, s := range suites {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.fn(t, func(name string, fn func(t *testing.T, h *Harness)) {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					backend(t, fn)
				})
			})
		})
	}
}

// decided reports whether a step was made by this call or, when writes are repeated, by the call before it.
func (h *Harness) decided(o store.Outcome) bool {
	return o == store.Decided || h.Repeats && o == store.Repeated
}

// declared is a node that can be granted work.
func declared(id core.NodeID, slots int) core.Node {
	c := core.Capability{Semantic: core.NewLangSet("en", "zh"), AnyPair: true}
	return core.Node{ID: id, Health: core.HealthReady, MaxJobs: slots, Capability: c, Callback: "http://127.0.0.1:9/jobs"}
}

// register registers a node and returns it.
func (h *Harness) register(t *testing.T, id core.NodeID, slots int) *core.Node {
	t.Helper()
	r, err := h.Store.Register(t.Context(), store.RegisterParams{Node: declared(id, slots), Load: core.UnknownLoad})
	if err != nil {
		t.Fatalf("register %s: %v", id, err)
	}
	return r.Node
}

// ref names a lease. The token is made of the job, so that each job's lease has its own.
func ref(node core.NodeID, job core.JobID) core.LeaseRef {
	return core.LeaseRef{Node: node, Job: job, Attempt: 1, Token: core.Token("t." + string(job))}
}

// reserve asks for a slot on a node as it is declared and returns the verdict.
func (h *Harness) reserve(t *testing.T, n *core.Node, job core.JobID) store.Verdict {
	t.Helper()
	r, err := h.Store.Reserve(t.Context(), store.ReserveParams{
		Lease: ref(n.ID, job), Epoch: n.Epoch, Revision: n.Revision,
	})
	if err != nil {
		t.Fatalf("reserve %s for %s: %v", n.ID, job, err)
	}
	return r.Verdict
}

// mustReserve reserves and fails the test unless a slot was granted.
func (h *Harness) mustReserve(t *testing.T, n *core.Node, jobs ...core.JobID) {
	t.Helper()
	for _, job := range jobs {
		if v := h.reserve(t, n, job); v != store.OK {
			t.Fatalf("reserve %s for %s: %s, want OK", n.ID, job, v)
		}
	}
}

// commit confirms a reserved job.
func (h *Harness) commit(t *testing.T, r core.LeaseRef) bool {
	t.Helper()
	held, err := h.Store.Commit(t.Context(), r)
	if err != nil {
		t.Fatalf("commit %v: %v", r, err)
	}
	return held
}

// release frees a slot.
func (h *Harness) release(t *testing.T, r core.LeaseRef, park bool) {
	t.Helper()
	if err := h.Store.Release(t.Context(), store.ReleaseParams{Lease: r, Park: park}); err != nil {
		t.Fatalf("release %v: %v", r, err)
	}
	h.settle()
}

func (h *Harness) settle() {
	if h.Settle != nil {
		h.Settle()
	}
}

// occupancy asks how full a node is.
func (h *Harness) occupancy(t *testing.T, id core.NodeID) store.Occupancy {
	t.Helper()
	var o [1]store.Occupancy
	if err := h.Store.Probe(t.Context(), []core.NodeID{id}, o[:]); err != nil {
		t.Fatalf("probe %s: %v", id, err)
	}
	return o[0]
}

// wantOccupancy compares how full a node is.
func (h *Harness) wantOccupancy(t *testing.T, id core.NodeID, want store.Occupancy) {
	t.Helper()
	got := h.occupancy(t, id)
	got.Closed = false // has tests of its own
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("occupancy of %s (-want +got):\n%s", id, diff)
	}
}

// beat is a heartbeat with the fields a test cares about.
type beat struct {
	seq    uint64
	active []core.JobID // nil: the node does not list
	count  *int
	change func(*core.Node)
	health core.Health
	epoch  core.Epoch
}

func (h *Harness) params(n *core.Node, b beat) store.HeartbeatParams {
	p := store.HeartbeatParams{Node: n.ID, Seq: b.seq, Epoch: b.epoch, Known: n, Load: core.UnknownLoad}
	if b.active != nil {
		p.Activity.Lists = true
		for _, job := range b.active {
			p.Activity.Active = append(p.Activity.Active, store.ActiveJob{Job: job, Attempt: 1})
		}
	}
	if b.count != nil {
		p.Activity.Counts, p.Activity.Current = true, *b.count
	}
	if b.change != nil || b.health != 0 {
		next := *n
		if b.health != 0 {
			next.Health = b.health
		}
		if b.change != nil {
			b.change(&next)
		}
		p.Declared = &next
	}
	return p
}

// beat sends a heartbeat that must be accepted.
func (h *Harness) beat(t *testing.T, n *core.Node, b beat) store.HeartbeatResult {
	t.Helper()
	pulse, err := h.Store.Heartbeat(t.Context(), h.params(n, b))
	if err != nil {
		t.Fatalf("heartbeat %s: %v", n.ID, err)
	}
	if pulse.Verdict != store.OK {
		t.Fatalf("heartbeat %s: %s, want OK", n.ID, pulse.Verdict)
	}
	return pulse
}

// jobsOf lists the jobs of leases, to compare them by.
func jobsOf(leases []core.Lease) map[core.JobID]core.LeaseState {
	m := make(map[core.JobID]core.LeaseState)
	for _, l := range leases {
		m[l.Job] = l.State
	}
	return m
}

// late is a context whose deadline has passed.
func late(t *testing.T) context.Context {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Millisecond))
	t.Cleanup(cancel)
	return ctx
}
