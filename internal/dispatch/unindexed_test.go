package dispatch_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
)

// TestRestrictionsWithoutAnIndex: a job that requires so many services that there is no index of the nodes that have them goes to one that
// has them all, and to its preferred region first.
func TestRestrictionsWithoutAnIndex(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		var services []string
		for i := range 12 {
			services = append(services, fmt.Sprint("service-", i))
		}
		in := func(region string) func(*core.Change) { return func(p *core.Change) { p.Region = region } }
		for i := range 6 {
			h.addNode(fmt.Sprint("near-", i), 10, in("eu"), withServices(services...))
			h.addNode(fmt.Sprint("far-", i), 10, in("us"), withServices(services...))
			h.addNode(fmt.Sprint("lacking-", i), 10, in("eu"), withServices(services[1:]...))
		}
		near := func(s *core.Spec) { s.Options.PreferredRegion = "eu" }
		for i := range 30 {
			p := h.dispatch(withRequestID(fmt.Sprint("r", i)), requiring(services...), near)
			if declared := h.fleet.Node(p.Node).Declared(); declared.Region != "eu" || len(declared.Services) != len(services) {
				t.Fatalf("job %d is on %s", i, p.Node)
			}
		}
		if indexed := slices.ContainsFunc(slices.Collect(h.fleet.Indexes()),
			func(x *fleet.Index) bool { return !x.Restriction.Empty() }); indexed {
			t.Error("there is an index with a restriction")
		}
	})
}
