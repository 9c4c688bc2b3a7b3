package pick

import (
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
)

// anyJob is a job without requirements, and without speech.
var anyJob = struct {
	requirement core.Requirement
	options     core.Options
}{}

// Availability returns why a node would get no job at present, whatever the job and if it had a free slot; ReasonNone if it may get one.
// Preferences do not count, and neither does speech, which not every job needs.
func (p *Picker) Availability(n *fleet.Node, now fleet.Instant) core.Reason {
	q := Query{Requirement: &anyJob.requirement, Options: &anyJob.options, Tenant: n.Declared().Tenant, Now: now}
	if reason := p.filterMember(&q, n); !reason.Soft() {
		return reason
	}
	return core.ReasonNone
}
