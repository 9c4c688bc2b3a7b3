//go:build !race

// Under the race detector sync.Pool drops some of its values on purpose, so the allocations of a selection
// cannot be measured there.

package pick_test

import (
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Not parallel: other tests would allocate meanwhile.
func TestSelectionAllocatesNothing(t *testing.T) {
	f := poolOf(10_000)
	checkNoAllocations(t, f)
	// Nodes with services that are not ready (a third) or marked (a third) cost no more.
	for i := range 10_000 {
		n := *f.node(i).Declared()
		n.Services = []core.Service{{ID: "asr-1", Type: "asr", Status: core.ServiceReady}, {ID: "asr-2", Type: "asr", Status: core.ServiceError}}
		if i%3 == 0 {
			n.Services[0].Status = core.ServiceDownloading
		}
		n.Version++
		f.Update(status(&n))
		if i%3 == 1 {
			f.Mark(store.Mark{Node: n.ID, Service: "asr-1", Epoch: n.Epoch, NodeVersion: n.Version, For: time.Hour})
		}
	}
	checkNoAllocations(t, f)
	// Nor do nodes that are ejected (a third) or limited (a third).
	for i := range 10_000 {
		n := *f.node(i).Declared()
		if i%3 < 2 {
			limitedTo(i % 3)(&n)
		}
		n.Version++
		f.Update(status(&n))
	}
	checkNoAllocations(t, f)
}

func checkNoAllocations(t *testing.T, f *poolFixture) {
	t.Helper()
	for _, c := range []struct {
		name    string
		options core.Options
		next    int // calls of Next
	}{
		{"the first candidate", core.Options{}, 1},
		{"the whole sample", core.Options{}, defaultPolicy().SampleK},
		{"a job with requirements that no node meets", core.Options{RequiredModels: []string{"m"}, Region: "eu"}, 1},
	} {
		picker := pick.New(f.Fleet, defaultPolicy(), nil)
		route := f.Route(direction, false)
		q := f.query(func(q *pick.Query) {
			q.Options, q.Tenant, q.LastNode, q.Tried = &c.options, "acme", nodeID(1), []core.NodeID{nodeID(2)}
		})
		got := testing.AllocsPerRun(1000, func() {
			r := picker.Select(q, route.For(q.Tenant), pick.Eligible, "")
			r.NextPool()
			for range c.next {
				r.Next()
			}
			r.End()
		})
		if got != 0 {
			t.Errorf("%s: %v allocations per selection, want none", c.name, got)
		}
	}
}
