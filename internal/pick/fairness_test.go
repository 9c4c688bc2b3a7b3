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

// held is a slot that is given back at a moment.
type held struct {
	until time.Time
	lease store.ReleaseParams
}

// yard is a hall of nodes next to the ledger that really has their slots.
type yard struct {
	*hall
	t      *testing.T
	ledger *memstore.Store
	holds  []held
	jobs   int
}

func newYard(t *testing.T, nodes, slots int) *yard {
	t.Helper()
	const presence = 15 * time.Second
	y := &yard{t: t, hall: newHall(), ledger: memstore.New(store.Timing{
		Presence: presence, ReservedTTL: 5 * time.Second, Attempt: presence, Job: 2 * presence, Retention: time.Minute,
	})}
	for i := range nodes {
		r, err := y.ledger.Register(t.Context(), store.RegisterParams{
			Node: *declared(nth(i), func(n *core.Node) { n.MaxJobs = slots }), Load: core.UnknownLoad,
		})
		if err != nil {
			t.Fatal(err)
		}
		y.Update(r.NodeStatus)
	}
	return y
}

// beat lets every node send a heartbeat.
func (y *yard) beat(nodes int) {
	for i := range nodes {
		pulse, err := y.ledger.Heartbeat(context.Background(), store.HeartbeatParams{Node: nth(i), Load: core.UnknownLoad})
		if err != nil || pulse.Verdict != store.OK {
			y.t.Fatalf("heartbeat: %v, %v", pulse.Verdict, err)
		}
		y.RecordHeartbeat(nth(i), pulse.Load, pulse.Occupancy)
	}
}

// choose reserves a slot as a dispatch does and returns who gave it; empty when the sample found nobody.
func (y *yard) choose(picker *pick.Picker, hold time.Duration) core.NodeID {
	y.jobs++
	q := y.query()
	r := picker.Begin(q, y.pool.Members())
	defer r.End()
	for m := r.Next(); m.Node != nil; m = r.Next() {
		lease := core.LeaseRef{Node: m.ID(), Job: core.JobID(fmt.Sprint("job-", y.jobs)), Attempt: 1, Token: "t"}
		got, err := y.ledger.Reserve(context.Background(), store.ReserveParams{
			Lease: lease, Handle: m.Handle, Epoch: m.Epoch(), Revision: m.Revision,
		})
		if err != nil {
			y.t.Fatal(err)
		}
		y.ObserveFree(m.Node, got.Free, q.Now)
		if got.Verdict == store.OK {
			y.holds = append(y.holds, held{time.Now().Add(hold), store.ReleaseParams{Lease: lease, Handle: m.Handle}})
			return m.ID()
		}
	}
	return ""
}

// release gives back what is due.
func (y *yard) release() {
	y.holds = slices.DeleteFunc(y.holds, func(h held) bool {
		if h.until.After(time.Now()) {
			return false
		}
		if err := y.ledger.Release(context.Background(), h.lease); err != nil {
			y.t.Fatal(err)
		}
		y.ObserveRelease(y.Node(h.lease.Lease.Node))
		return true
	})
}

// Equal nodes get equal shares of the work, whether the fleet is mostly idle or mostly full.
func TestEqualNodesAreChosenEqually(t *testing.T) {
	t.Parallel()
	const nodes, slots, choices = 20, 4, 20_000
	for _, c := range []struct {
		name    string
		longest time.Duration // a hold is anything up to it; one job begins each millisecond
	}{
		{"one at a time", time.Millisecond},
		{"mostly idle", 20 * time.Millisecond},
		{"half full", 80 * time.Millisecond},
		{"nearly full", 150 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				y := newYard(t, nodes, slots)
				picker := pick.New(y.Fleet, usual(), seeded(5))
				rng := rand.New(rand.NewPCG(6, 1))
				counts := make(map[core.NodeID]int)
				refused := 0
				for i := range choices {
					if i%5000 == 0 {
						y.beat(nodes)
					}
					time.Sleep(time.Millisecond)
					y.release()
					hold := time.Duration(1 + rng.Int64N(int64(c.longest)))
					if id := y.choose(picker, hold); id != "" {
						counts[id]++
					} else {
						refused++
					}
				}
				checkUniform(t, "choices", counts, nodes)
				// A sample of 20 is the whole fleet here: with most slots free nobody goes away empty.
				if c.longest < 100*time.Millisecond && refused > 0 {
					t.Errorf("%d of %d found nobody", refused, choices)
				}
			})
		})
	}
}
