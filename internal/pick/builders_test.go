package pick_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store"
)

var wanted = core.Direction{Src: "en", Tgt: "de"}

// usual is the policy of an untouched configuration.
func usual() pick.Policy {
	return pick.Policy{
		SampleK: 20, ScanMax: 512, StaleAfter: 15 * time.Second, Shuffle: true,
		CPUMax: 0.95, GPUMax: 0.98, MemoryMax: 0.95,
	}
}

// seeded draws the same numbers at every run.
func seeded(seed uint64) func(int) int { return rand.New(rand.NewPCG(seed, 1)).IntN }

// declared builds what a node declares: ready, reachable, four slots, English and German both ways.
func declared(id core.NodeID, changes ...func(*core.Node)) *core.Node {
	n := &core.Node{
		ID: id, Epoch: 1, Revision: 1, Version: 1,
		Health: core.HealthReady, MaxJobs: 4, Callback: "http://" + string(id),
		Capability: core.Capability{Semantic: core.NewLangSet("de", "en"), TTS: core.NewLangSet("de"), AnyPair: true},
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

func status(n *core.Node) store.NodeStatus {
	return store.NodeStatus{Node: n, Load: core.UnknownLoad, Occupancy: store.Occupancy{Max: n.MaxJobs}}
}

// hall is a view whose pool for the wanted direction holds its nodes in the order they came.
type hall struct {
	*fleet.Fleet
	pool *fleet.Pool
}

// newHall asks for the pool first: a pool that is made from a view full of nodes has them in no order, and
// tests that count by place would differ from run to run.
func newHall() *hall {
	f := fleet.New(time.Hour)
	return &hall{f, f.Pool(wanted, false)}
}

// hallOf is a hall of so many equal nodes.
func hallOf(nodes int) *hall {
	h := newHall()
	for i := range nodes {
		h.Update(status(declared(nth(i))))
	}
	return h
}

func nth(i int) core.NodeID { return core.NodeID(fmt.Sprintf("n%05d", i)) }

// node is the i-th to have come.
func (h *hall) node(i int) *fleet.Node { return h.pool.Members().At(i).Node }

// query is a plain job, asked now.
func (h *hall) query(changes ...func(*pick.Query)) pick.Query {
	q := pick.Query{Requirement: &h.pool.Requirement, Options: &core.Options{}, Now: h.Now()}
	for _, change := range changes {
		change(&q)
	}
	return q
}

// offers is everything a round offers, in order.
func offers(r *pick.Selection) []core.NodeID {
	all := []core.NodeID{}
	for m := r.Next(); m.Node != nil; m = r.Next() {
		all = append(all, m.ID())
	}
	return all
}

func ids(members []fleet.Member) []core.NodeID {
	all := []core.NodeID{}
	for _, m := range members {
		all = append(all, m.ID())
	}
	return all
}

// begin starts a round that ends with the test.
func begin(t *testing.T, p *pick.Picker, q pick.Query, members *fleet.Members) *pick.Selection {
	t.Helper()
	r := p.Select(q, members)
	t.Cleanup(r.End)
	return r
}
