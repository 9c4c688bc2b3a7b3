//go:build !race

// Under the race detector sync.Pool drops some of what it is given, on purpose, so that what a round costs
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
func TestRoundAllocatesNothing(t *testing.T) {
	h := hallOf(10_000)
	allocatesNothing(t, h)
	// Nodes whose services come and go cost no more: a third is not ready, a third is marked.
	for i := range 10_000 {
		n := *h.node(i).Declared()
		n.Capability.Services = []core.Service{{ID: "asr-1", Type: "asr", Status: core.ServiceReady}, {ID: "asr-2", Type: "asr", Status: core.ServiceError}}
		if i%3 == 0 {
			n.Capability.Services[0].Status = core.ServiceDownloading
		}
		n.Version++
		h.Update(status(&n))
		if i%3 == 1 {
			h.Mark(store.Mark{Node: n.ID, Service: "asr-1", For: time.Hour})
		}
	}
	allocatesNothing(t, h)
}

func allocatesNothing(t *testing.T, h *hall) {
	t.Helper()
	for _, c := range []struct {
		name    string
		options core.Options
		offers  int
	}{
		{"the first offer", core.Options{}, 1},
		{"the whole sample", core.Options{}, usual().SampleK},
		{"a demanding job that nobody can do", core.Options{RequiredModels: []string{"m"}, Region: "eu"}, 1},
	} {
		picker := pick.New(h.Fleet, usual(), nil)
		members := h.pool.Members()
		q := h.query(func(q *pick.Query) {
			q.Options, q.Tenant, q.Avoid, q.Tried = &c.options, "acme", nth(1), []core.NodeID{nth(2)}
		})
		got := testing.AllocsPerRun(1000, func() {
			r := picker.Begin(q, members)
			for range c.offers {
				r.Next()
			}
			r.End()
		})
		if got != 0 {
			t.Errorf("%s: %v allocations a round, want none", c.name, got)
		}
	}
}
