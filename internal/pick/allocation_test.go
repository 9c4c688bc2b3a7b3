//go:build !race

// Under the race detector sync.Pool drops some of what it is given, on purpose, so that what a round costs
// cannot be measured there.

package pick_test

import (
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/pick"
)

// Not parallel: other tests would allocate meanwhile.
func TestRoundAllocatesNothing(t *testing.T) {
	h := hallOf(10_000)
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
