package pick_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

// heldSlot is a reserved slot and when it is released.
type heldSlot struct {
	until time.Time
	lease store.ReleaseParams
}

// loadTest is a pool of nodes and the ledger of their slots.
type loadTest struct {
	*poolFixture
	t      *testing.T
	ledger *memstore.Store
	held   []heldSlot
	jobs   int
}

func newLoadTest(t *testing.T, nodes, slots int) *loadTest {
	t.Helper()
	const presence = 15 * time.Second
	l := &loadTest{t: t, poolFixture: emptyPool(), ledger: memstore.New(store.Timing{
		Presence: presence, ReservedTTL: 5 * time.Second, Attempt: presence, Job: 2 * presence, Retention: time.Minute,
	})}
	for i := range nodes {
		r, err := l.ledger.Register(t.Context(), store.RegisterParams{
			Node: *declared(nodeID(i), func(n *core.Node) { n.MaxJobs = slots }), Load: core.UnknownLoad,
		})
		if err != nil {
			t.Fatal(err)
		}
		l.Update(r.NodeStatus)
	}
	return l
}

// sendHeartbeats sends a heartbeat of every node.
func (l *loadTest) sendHeartbeats(nodes int) {
	for i := range nodes {
		result, err := l.ledger.Heartbeat(context.Background(), store.HeartbeatParams{Node: nodeID(i), Load: core.UnknownLoad})
		if err != nil || result.Verdict != store.OK {
			l.t.Fatalf("heartbeat: %v, %v", result.Verdict, err)
		}
		l.RecordHeartbeat(nodeID(i), result.Load, result.Occupancy)
	}
}

// reserveSlot reserves a slot as a dispatch does and returns its node; empty if the sample had no free slot.
func (l *loadTest) reserveSlot(picker *pick.Picker, hold time.Duration) core.NodeID {
	l.jobs++
	q := l.query()
	r := selectIn(picker, q, l.pool)
	defer r.End()
	for m := r.Next(); m.Node != nil; m = r.Next() {
		lease := core.LeaseRef{Node: m.ID(), Job: core.JobID(fmt.Sprint("job-", l.jobs)), Attempt: 1, Token: "t"}
		m.BeginJob()
		got, err := l.ledger.Reserve(context.Background(), store.ReserveParams{
			Lease: lease, Handle: m.Handle(), Epoch: m.Epoch, Revision: m.Revision,
		})
		if err != nil {
			l.t.Fatal(err)
		}
		if got.Verdict != store.OK {
			m.EndJob()
		}
		l.ObserveFree(m.Node, got.Free, q.Now)
		if got.Verdict == store.OK {
			l.held = append(l.held, heldSlot{time.Now().Add(hold), store.ReleaseParams{Lease: lease, Handle: m.Handle()}})
			return m.ID()
		}
	}
	return ""
}

// releaseDue releases the slots whose time is over.
func (l *loadTest) releaseDue() {
	l.held = slices.DeleteFunc(l.held, func(h heldSlot) bool {
		if h.until.After(time.Now()) {
			return false
		}
		if err := l.ledger.Release(context.Background(), h.lease); err != nil {
			l.t.Fatal(err)
		}
		l.Node(h.lease.Lease.Node).EndJob()
		return true
	})
}

// Equal nodes get equal shares of the work, whether the fleet is mostly idle or mostly full.
func TestEqualNodesAreChosenEqually(t *testing.T) {
	t.Parallel()
	const nodes, slots, choices = 20, 4, 20_000
	for _, c := range []struct {
		name    string
		longest time.Duration // a slot is held for at most this long; one job begins each millisecond
	}{
		{"one at a time", time.Millisecond},
		{"mostly idle", 20 * time.Millisecond},
		{"half full", 80 * time.Millisecond},
		{"nearly full", 150 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLoadTest(t, nodes, slots)
				picker := pick.New(l.Fleet, defaultPolicy(), seeded(5))
				rng := rand.New(rand.NewPCG(6, 1))
				counts := make(map[core.NodeID]int)
				refused := 0
				for i := range choices {
					if i%5000 == 0 {
						l.sendHeartbeats(nodes)
					}
					time.Sleep(time.Millisecond)
					l.releaseDue()
					hold := time.Duration(1 + rng.Int64N(int64(c.longest)))
					if id := l.reserveSlot(picker, hold); id != "" {
						counts[id]++
					} else {
						refused++
					}
				}
				checkUniform(t, "choices", counts, nodes)
				// A sample of 20 is the whole fleet here: with most slots free no selection fails.
				if c.longest < 100*time.Millisecond && refused > 0 {
					t.Errorf("%d of %d selections found no free slot", refused, choices)
				}
			})
		})
	}
}
