package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Harness is a fresh store under test. Its methods make the calls that many tests share, and fail the test on an error.
type Harness struct {
	Store  store.Store
	Timing store.Timing
	// Wait lets time pass on the store's clock.
	Wait func(time.Duration)
	// StopQueueClock sets the clock of the queues to a time in Unix ms, at which it stands still; nil: Wait moves it, and nothing else
	// does.
	StopQueueClock func(at int64)
	// Flush waits for the writes that the store makes in the background; nil: there are none.
	Flush func()
	// Slack is the precision of Wait.
	Slack time.Duration
	// Repeats says that the store is a RepeatingStore.
	Repeats bool
	// Workers and Rounds are the size of the crash tests: concurrent dispatchers, and jobs of each.
	Workers, Rounds int
}

func (h *Harness) flush() {
	if h.Flush != nil {
		h.Flush()
	}
}

// decided reports whether an event was applied by this call or, when writes are repeated, by the call before it.
func (h *Harness) decided(o store.Outcome) bool {
	return o == store.Decided || h.Repeats && o == store.Repeated
}

// expiredContext returns a context whose deadline has passed.
func expiredContext(t *testing.T) context.Context {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Millisecond))
	t.Cleanup(cancel)
	return ctx
}

// declaredNode returns a node that can be granted jobs.
func declaredNode(id core.NodeID, slots int) core.Node {
	c := core.Capability{Semantic: core.NewLangSet("en", "zh"), AnyPair: true}
	return core.Node{ID: id, Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: slots, Capability: c,
		Callback: "http://127.0.0.1:9/jobs"}}
}

// register registers a node and returns it.
func (h *Harness) register(t *testing.T, id core.NodeID, slots int) *core.Node {
	t.Helper()
	r, err := h.Store.Register(t.Context(), store.RegisterParams{Node: declaredNode(id, slots), Load: core.UnknownLoad})
	if err != nil {
		t.Fatalf("register %s: %v", id, err)
	}
	return r.Node
}

// heartbeat contains the fields of a heartbeat that tests set.
type heartbeat struct {
	seq    uint64
	active []core.JobID // nil: the node does not list its jobs
	count  *int
	change func(*core.Node)
	health core.Health
	epoch  core.Epoch
}

func (h *Harness) heartbeatParams(n *core.Node, b heartbeat) store.HeartbeatParams {
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

// heartbeat sends a heartbeat that must be accepted.
func (h *Harness) heartbeat(t *testing.T, n *core.Node, b heartbeat) store.HeartbeatResult {
	t.Helper()
	result, err := h.Store.Heartbeat(t.Context(), h.heartbeatParams(n, b))
	if err != nil {
		t.Fatalf("heartbeat %s: %v", n.ID, err)
	}
	if result.Verdict != store.OK {
		t.Fatalf("heartbeat %s: %s, want OK", n.ID, result.Verdict)
	}
	return result
}

// leaseRef returns a lease with a token that is made of the job.
func leaseRef(node core.NodeID, job core.JobID) core.LeaseRef {
	return core.LeaseRef{Node: node, Job: job, Attempt: 1, Token: core.Token("t." + string(job))}
}

// reserve reserves a slot on a node and returns the verdict.
func (h *Harness) reserve(t *testing.T, n *core.Node, job core.JobID) store.Verdict {
	t.Helper()
	r, err := h.Store.Reserve(t.Context(), store.ReserveParams{
		Lease: leaseRef(n.ID, job), Epoch: n.Epoch, Revision: n.Revision,
	})
	if err != nil {
		t.Fatalf("reserve %s for %s: %v", n.ID, job, err)
	}
	return r.Verdict
}

// mustReserve reserves slots that must be granted.
func (h *Harness) mustReserve(t *testing.T, n *core.Node, jobs ...core.JobID) {
	t.Helper()
	for _, job := range jobs {
		if v := h.reserve(t, n, job); v != store.OK {
			t.Fatalf("reserve %s for %s: %s, want OK", n.ID, job, v)
		}
	}
}

// commit commits a lease and reports whether it is live.
func (h *Harness) commit(t *testing.T, ref core.LeaseRef) bool {
	t.Helper()
	held, err := h.Store.Commit(t.Context(), ref)
	if err != nil {
		t.Fatalf("commit %v: %v", ref, err)
	}
	return held
}

// release releases a lease and waits until that is done.
func (h *Harness) release(t *testing.T, ref core.LeaseRef, park bool) {
	t.Helper()
	if err := h.Store.Release(t.Context(), store.ReleaseParams{Lease: ref, Park: park}); err != nil {
		t.Fatalf("release %v: %v", ref, err)
	}
	h.flush()
}

// occupancy returns the occupancy of a node.
func (h *Harness) occupancy(t *testing.T, id core.NodeID) store.Occupancy {
	t.Helper()
	var o [1]store.Occupancy
	if err := h.Store.Probe(t.Context(), []core.NodeID{id}, o[:]); err != nil {
		t.Fatalf("probe %s: %v", id, err)
	}
	return o[0]
}

// wantOccupancy compares the occupancy of a node.
func (h *Harness) wantOccupancy(t *testing.T, id core.NodeID, want store.Occupancy) {
	t.Helper()
	got := h.occupancy(t, id)
	got.Closed = false // it has tests of its own
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("occupancy of %s (-want +got):\n%s", id, diff)
	}
}

// statesByJob returns the states of leases by job, for comparison.
func statesByJob(leases []core.Lease) map[core.JobID]core.LeaseState {
	m := make(map[core.JobID]core.LeaseState)
	for _, l := range leases {
		m[l.Job] = l.State
	}
	return m
}

// maxSlowTries is how often a test is repeated on a machine that is too slow for it.
const maxSlowTries = 10

// repeatWhileSlow runs a test with another node each time, until the test reports that its calls were made in time: on a real clock a busy
// machine may be too slow to make two calls before something expires, and then there is nothing to check.
func repeatWhileSlow(t *testing.T, test func(node core.NodeID) (inTime bool)) {
	t.Helper()
	for try := range maxSlowTries {
		if test(core.NodeID(fmt.Sprintf("node-%d", try))) || t.Failed() {
			return
		}
	}
	t.Errorf("the machine was too slow %d times", maxSlowTries)
}
