package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// Explanation is what would become of a request, node by node.
type Explanation struct {
	Verdict   wire.Code // empty: it would be accepted
	Detail    string
	Reasons   map[core.Reason]int
	Nodes     []ExplainedNode
	Truncated bool
}

// ExplainedNode is one node's part of it.
type ExplainedNode struct {
	Node   *core.Node
	Reason core.Reason
	store.Occupancy
}

// Explain says which nodes could take a job and what speaks against each of the others. It lists at most
// limit nodes and reserves nothing.
func (d *Dispatcher) Explain(ctx context.Context, spec core.Spec, limit int) (Explanation, error) {
	pool := d.fleet.Pool(spec.Direction, spec.Options.RequireTTS)
	q := pick.Query{
		Requirement: &pool.Requirement, Options: &spec.Options, Tenant: spec.Tenant,
		Avoid: d.spread.last(spec.SessionRef()), Now: d.fleet.Now(),
	}
	all := slices.SortedFunc(d.fleet.All(), func(a, b *fleet.Node) int { return strings.Compare(string(a.ID()), string(b.ID())) })
	ids := make([]core.NodeID, len(all))
	for i, n := range all {
		ids[i] = n.ID()
	}
	full := make([]store.Occupancy, len(all))
	if err := d.store.Probe(ctx, ids, full); err != nil {
		d.storeFailed("probe", err)
		return Explanation{}, gone(ctx)
	}

	x := Explanation{Reasons: make(map[core.Reason]int)}
	capable, free := 0, 0
	preferred := preference{id: spec.Options.PreferredNode, strict: spec.Options.Strict}
	note := func(n *core.Node, reason core.Reason, o store.Occupancy) {
		if !reason.Incapable() {
			capable++
		}
		if reason == core.ReasonNone || reason.Soft() {
			free++
		}
		if n.ID == preferred.id {
			preferred.known, preferred.reason = true, reason
		}
		if reason != core.ReasonNone {
			x.Reasons[reason]++
		}
		if len(x.Nodes) < limit {
			x.Nodes = append(x.Nodes, ExplainedNode{Node: n, Reason: reason, Occupancy: o})
		} else {
			x.Truncated = true
		}
	}
	for i, n := range all {
		reason := d.picker.Objection(&q, n)
		if (reason == core.ReasonNone || reason.Soft()) && !full[i].Free() {
			reason = unfree(&full[i])
		}
		note(n.Declared(), reason, full[i])
	}
	for n := range d.fleet.Silent() {
		note(n, cmp.Or(d.picker.Never(&q, n), core.ReasonStale), store.Occupancy{Max: n.MaxJobs})
	}
	d.conclude(&x, &spec, &preferred, capable, free)
	return x, nil
}

// preference is what was found out about the node a job would like.
type preference struct {
	id     core.NodeID
	strict bool
	known  bool
	reason core.Reason
}

// away reports whether the job insists on its node and the node cannot take it now.
func (p *preference) away() bool {
	return p.id != "" && p.strict && p.reason != core.ReasonNone && !p.reason.Soft()
}

// conclude says what the nodes together mean for the request.
func (d *Dispatcher) conclude(x *Explanation, spec *core.Spec, preferred *preference, capable, free int) {
	wanted := wantedOf(spec)
	switch {
	case preferred.id != "" && (!preferred.known || preferred.reason.Incapable()):
		x.Verdict = wire.PreferredNodeNotCapable
		x.Detail = fmt.Sprintf("node %s is not registered or cannot do this job", preferred.id)
	case capable == 0:
		x.Verdict = wire.NoCapableNode
		x.Detail = fmt.Sprintf("No node supports %s.", wanted)
	case free == 0, preferred.away():
		x.Verdict = wire.AllCandidatesFullOrFailed
		x.Detail = fmt.Sprintf("No node that supports %s can take the job now: %s.", wanted, tally(capableOnly(x.Reasons)))
	default:
		x.Detail = fmt.Sprintf("%d of %d capable nodes can take the job now.", free, capable)
	}
}

// capableOnly leaves out the nodes that could never do the job.
func capableOnly(reasons map[core.Reason]int) map[core.Reason]int {
	kept := maps.Clone(reasons)
	maps.DeleteFunc(kept, func(r core.Reason, _ int) bool { return r.Incapable() })
	return kept
}
