package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/waiting"
	"github.com/lingua-scheduler/lingua/wire"
)

// Explanation says what a request would get now, node by node.
type Explanation struct {
	Verdict   wire.Code // empty: it would be accepted
	Detail    string
	Reasons   map[core.Reason]int
	Nodes     []ExplainedNode
	Truncated bool // there are more nodes than were asked for
	// Pools are the capability pools, at most MaxExplainedPools; none if the fleet is not divided.
	Pools          []ExplainedPool
	PoolsTruncated bool
	BoundPool      core.PoolID        // to which the tenant is bound; empty: none
	Wait           *waiting.Explained // what the wait for a slot would be; nil: a slot is free, or no node is capable
}

// ExplainedNode says why one node could take the job or not.
type ExplainedNode struct {
	Node *core.Node
	Pool core.PoolID // empty: none
	// Fallback means that its pool is not eligible: the node is chosen only if no eligible pool has a free slot.
	Fallback bool
	Reason   core.Reason
	At       time.Time // the time of the store's clock, by which the times of the node are judged; zero: unknown
	store.Occupancy
	Services []ExplainedService // that matter to the job, or to why the node is rejected
}

// ExplainParams describes an explanation.
type ExplainParams struct {
	Spec  core.Spec
	Limit int // the maximum number of nodes that are listed
	// OnlyTenant makes it an explanation for the tenant of the job: nodes of other tenants do not exist, and nodes that serve all
	// tenants count and are not listed.
	OnlyTenant bool
}

// Explain says which nodes could take a job and why each of the others could not. It reserves nothing.
func (d *Dispatcher) Explain(ctx context.Context, p ExplainParams) (Explanation, error) {
	p.Spec.LastNode = d.spread.lastNode(ctx, &p.Spec)
	x, err := d.selector.explain(ctx, &p)
	if err != nil || x.Verdict != wire.AllCandidatesFullOrFailed {
		return x, err
	}
	x.Wait, err = d.Waiting.Explain(ctx, &waiting.ExplainParams{Spec: p.Spec, OnlyTenant: p.OnlyTenant})
	if ms := p.Spec.Options.MaxWaitMS; err == nil && x.Wait.Refusal != "" && ms != nil && *ms > 0 {
		x.Verdict = x.Wait.Refusal
	}
	return x, err
}

func (s *selector) explain(ctx context.Context, p *ExplainParams) (Explanation, error) {
	spec := &p.Spec
	// It has no rule for pools: nodes are counted by their pools, which the fleet has assigned already. To assign each node again is
	// expensive.
	q := pick.Query{
		Requirement: s.fleet.Route(spec.Direction, spec.Options.RequireTTS).Requirement, Options: &spec.Options, Tenant: spec.Tenant,
		LastNode: spec.LastNode, Region: spec.Options.PreferredRegion, Now: s.fleet.Now(),
	}
	all := slices.SortedFunc(s.fleet.All(), func(a, b *fleet.Node) int { return strings.Compare(string(a.ID()), string(b.ID())) })
	ids := make([]core.NodeID, len(all))
	for i, n := range all {
		ids[i] = n.ID()
	}
	occupancy := make([]store.Occupancy, len(all))
	if err := s.store.Probe(ctx, ids, occupancy); err != nil {
		s.store.RecordError("probe", err)
		return Explanation{}, store.CallError(ctx)
	}

	e := explainer{
		Explanation: Explanation{Reasons: make(map[core.Reason]int)}, ExplainParams: p,
		preferred: spec.Options.Preferred(), strict: spec.Options.Strict, pools: newPoolExplainer(s.fleet.Divided(), spec),
	}
	claims := s.waiting.Claims(ctx)
	for i, n := range all {
		reason := s.picker.Filter(&q, n)
		if reason == core.ReasonNone || reason.Soft() {
			if !occupancy[i].Free() {
				reason = unfreeReason(&occupancy[i])
			} else if claims.Want(n) {
				reason = core.ReasonFull // its slots are for those who wait
			}
		}
		declared := n.Declared()
		if listed := e.add(ExplainedNode{Node: declared, Reason: reason, At: n.StoreTime(q.Now), Occupancy: occupancy[i]}); listed != nil {
			listed.Services = explainServices(spec.Options.RequiredServices, declared, n, q.Now)
		}
	}
	for n := range s.fleet.Silent() {
		reason := cmp.Or(s.picker.FilterDeclared(&q, n), core.ReasonStale)
		if listed := e.add(ExplainedNode{Node: n, Reason: reason,
			Occupancy: store.Occupancy{Max: n.MaxJobs, Withheld: n.MaxJobs - n.Slots()}}); listed != nil {
			listed.Services = explainServices(spec.Options.RequiredServices, n, nil, q.Now)
		}
	}
	e.conclude(spec)
	if e.Verdict == wire.AllCandidatesFullOrFailed && s.silencedByStore(e.Reasons) {
		down := store.Unavailable()
		e.Verdict, e.Detail = down.Code, down.Detail
	}
	return e.Explanation, nil
}

// explainer collects an Explanation.
type explainer struct {
	Explanation
	*ExplainParams
	capable, free int
	pools         *poolExplainer

	preferred       core.NodeID // empty: none
	strict          bool
	preferredKnown  bool
	preferredReason core.Reason // why the preferred node cannot take the job
}

// add adds one node with the reason for which it is rejected, whatever its pool, and returns it if it is listed.
func (e *explainer) add(x ExplainedNode) *ExplainedNode {
	n := x.Node
	if e.OnlyTenant && n.Tenant != "" && n.Tenant != e.Spec.Tenant {
		return nil
	}
	x.Pool = e.pools.poolOf(n)
	x.Fallback = !e.pools.rule.Eligible(x.Pool) && e.pools.rule.Allows(x.Pool)
	e.pools.add(x.Pool, x.Reason)
	reason := e.pools.restrict(x.Pool, x.Reason)
	x.Reason = reason
	if !reason.Incapable() {
		e.capable++
	}
	if reason == core.ReasonNone || reason.Soft() {
		e.free++
	}
	if n.ID == e.preferred {
		e.preferredKnown, e.preferredReason = true, reason
	}
	if reason != core.ReasonNone {
		e.Reasons[reason]++
	}
	if e.OnlyTenant && n.Tenant == "" {
		return nil
	}
	if len(e.Nodes) >= e.Limit {
		e.Truncated = true
		return nil
	}
	e.Nodes = append(e.Nodes, x)
	return &e.Nodes[len(e.Nodes)-1]
}

// preferredUnavailable reports whether the job accepts only its preferred node and that node cannot take it now.
func (e *explainer) preferredUnavailable() bool {
	return e.preferred != "" && e.strict && e.preferredReason != core.ReasonNone && !e.preferredReason.Soft()
}

// conclude sets the verdict for the request from all nodes.
func (e *explainer) conclude(spec *core.Spec) {
	required, subject := describeRequirements(spec), subjectOf(&e.pools.rule, e.Reasons)
	e.Pools, e.PoolsTruncated = e.pools.list(e.OnlyTenant)
	if e.pools.rule.Job.Bound {
		e.BoundPool = e.pools.rule.Job.ID
	}
	switch {
	case e.preferred != "" && (!e.preferredKnown || e.preferredReason.Incapable()):
		e.Verdict = wire.PreferredNodeNotCapable
		e.Detail = fmt.Sprintf("node %s is not registered or cannot do this job", e.preferred)
	case e.capable == 0:
		e.Verdict = wire.NoCapableNode
		e.Detail = fmt.Sprintf("%s supports %s.", subject, required)
	case e.free == 0, e.preferredUnavailable():
		e.Verdict = wire.AllCandidatesFullOrFailed
		e.Detail = fmt.Sprintf("%s that supports %s can take the job now: %s.", subject, required, listReasons(capableOnly(e.Reasons)))
	default:
		e.Detail = fmt.Sprintf("%d of %d capable nodes can take the job now.", e.free, e.capable)
	}
}

// refusedSelection is a selection that found no slot.
type refusedSelection struct {
	code       wire.Code
	rejections map[core.Reason]int
	query      pick.Query
	tried      triedPools
}

// countRefusal counts a request that was refused with an error, if the reason is that a selection found no slot. A request that waits, or a
// job that is retried, may have many such selections; only the last one counts, and only if the job is refused.
func (s *selector) countRefusal(e *wire.Error, r *refusedSelection) {
	if r == nil || e.Code != wire.NoCapableNode && e.Code != wire.AllCandidatesFullOrFailed {
		return
	}
	s.countRejections(r.code, r.rejections)
	s.pools.refused(r)
}

// reasonNoNode is the reason of a refusal without candidates: no node that the caller may use declares the direction. It is only a metric
// label, because no node has it.
const reasonNoNode core.Reason = "NO_NODE"

// countRejections counts why no node was selected. The refusal itself is counted under the reason that rejected most of the
// nodes that matter: the capable ones, or all if none is capable.
func (s *selector) countRejections(code wire.Code, rejections map[core.Reason]int) {
	for reason, n := range rejections {
		s.metrics.CandidatesRejected.WithLabelValues(string(reason)).Add(int64(n))
	}
	relevant := rejections
	if code != wire.NoCapableNode {
		relevant = capableOnly(rejections)
	}
	main := cmp.Or(core.MainReason(relevant), reasonNoNode)
	s.metrics.NodeSelection.WithLabelValues(string(code)).Inc()
	s.metrics.NoAvailableNode.WithLabelValues(main.Requirement(), string(main)).Inc()
}

// capableOnly returns the reasons without those of nodes that could never do the job.
func capableOnly(reasons map[core.Reason]int) map[core.Reason]int {
	capable := maps.Clone(reasons)
	maps.DeleteFunc(capable, func(r core.Reason, _ int) bool { return r.Incapable() })
	return capable
}

// maxDescribed bounds how many requirements of a job an error text names.
const maxDescribed = 8

// describeRequirements lists what a job requires of a node, for an error text.
func describeRequirements(spec *core.Spec) string {
	src, tgt := spec.Direction.Src, spec.Direction.Tgt
	parts := append([]string{fmt.Sprintf("semantic(%s)", src), fmt.Sprintf("nmt(%s->%s)", src, tgt)}, spec.ExtraRequirements()...)
	if more := len(parts) - maxDescribed; more > 0 {
		parts = append(parts[:maxDescribed], fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, " + ")
}

// listReasons lists reasons with their counts, the most frequent first.
func listReasons(counts map[core.Reason]int) string {
	reasons := slices.SortedFunc(maps.Keys(counts), func(a, b core.Reason) int {
		if n := counts[b] - counts[a]; n != 0 {
			return n
		}
		return strings.Compare(string(a), string(b))
	})
	parts := make([]string, len(reasons))
	for i, r := range reasons {
		parts[i] = fmt.Sprintf("%s %d", r, counts[r])
	}
	return strings.Join(parts, ", ")
}
