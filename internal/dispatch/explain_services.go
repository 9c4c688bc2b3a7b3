package dispatch

import (
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
)

// ExplainedService is a service of a node that the job requires, that is not ready, or that is marked as unavailable. A service that
// the node does not declare has no status.
type ExplainedService struct {
	core.Service
	MarkedFor time.Duration // how much longer it is marked; 0: it is not
}

// MaxExplainedServices bounds the services that are listed for one node.
const MaxExplainedServices = 100

// isRequired reports whether a service is required, whatever its version.
func isRequired(required []string, service string) bool {
	return slices.ContainsFunc(required, func(r string) bool {
		id, _ := core.CutRequired(r)
		return id == service
	})
}

// explainServices lists the services of a node that matter to a job. A node that is not in view has no marks: n is nil.
func explainServices(required []string, declared *core.Node, n *fleet.Node, now fleet.Instant) []ExplainedService {
	var list []ExplainedService
	for _, s := range declared.Services {
		x := ExplainedService{Service: s}
		if n != nil {
			x.MarkedFor = n.MarkedFor(&s, now)
		}
		if s.Status != core.ServiceReady || x.MarkedFor > 0 || isRequired(required, s.ID) {
			list = append(list, x)
		}
	}
	if n != nil {
		for _, m := range n.UndeclaredMarks(now) {
			list = append(list, ExplainedService{Service: core.Service{ID: m.Service, Version: m.Version}, MarkedFor: m.For})
		}
	}
	return list[:min(len(list), MaxExplainedServices)]
}
