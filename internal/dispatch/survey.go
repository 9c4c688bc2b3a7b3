package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// probeChunk is the number of nodes that one request probes at a time.
const probeChunk = 64

// surveyResult is what the surveys of a search have found, group by group.
type surveyResult struct {
	capable    int
	rejections map[core.Reason]int
	decision   decisionSoFar
	examples   *examples
}

// begin begins with the first survey.
func (f *surveyResult) begin(e *examples) {
	f.rejections, f.decision.others, f.examples = make(map[core.Reason]int), make(map[core.Reason]int), e
}

// add adds what a survey has rejected. Soft reasons do not reject: each of their nodes is counted by its result.
func (f *surveyResult) add(survey *pick.Survey) {
	f.capable += survey.Capable
	for reason, n := range survey.Rejections {
		if !reason.Soft() {
			f.rejections[reason] += n
			f.decision.others[reason] += n
		}
	}
}

// reject adds a candidate that has no free slot.
func (f *surveyResult) reject(node core.NodeID, reason core.Reason) {
	f.decision.add(node, reason)
	f.rejections[reason]++
	f.examples.add(reason, node)
}

// selectAny is the exhaustive selection in a group of pools, before the job leaves them. It probes the candidates in chunks and reserves
// one by one; what the fleet believes about their occupancy only orders them.
func (s *selector) selectAny(ctx context.Context, x *search, group pick.Group) finding {
	q := x.query
	q.Region = q.Options.PreferredRegion
	survey := s.picker.Survey(q, x.route, group)
	if x.route.Closed() { // after the survey: members may be missing from it
		return finding{closed: true}
	}
	if x.found.rejections == nil {
		x.found.begin(s.beginExamples(&q, x.route))
	}
	x.found.add(&survey)
	survey.Candidates = slices.DeleteFunc(survey.Candidates, func(m fleet.Member) bool {
		if !x.request.claims.Want(m.Node) {
			return false
		}
		x.found.reject(m.ID(), core.ReasonFull)
		return true
	})
	var ids [probeChunk]core.NodeID
	for chunk := range slices.Chunk(survey.Candidates, probeChunk) {
		for i, m := range chunk {
			ids[i] = m.ID()
		}
		batch, err := s.prober.read(ctx, ids[:len(chunk)])
		if err != nil {
			return finding{refusal: store.Unavailable()}
		}
		for _, m := range chunk {
			occupancy := batch.occupancyOf(m.ID())
			s.fleet.Observe(m.Node, occupancy.InFlight(), occupancy.Slots(), q.Now)
			reason := unfreeReason(occupancy)
			if batch.claimSlot(m.ID()) {
				res, verdict, err := s.reserve(ctx, x, &q, m)
				if err != nil || verdict != store.OK && verdict != store.Full {
					batch.unclaimSlot(m.ID())
				}
				if err != nil {
					return finding{refusal: store.Unavailable()}
				}
				if verdict == store.OK {
					res.pool = poolOf(&q, res.member.Declared())
					s.remember(x.request, &res, append(x.found.decision.probed, core.Candidate{Node: m.ID()}), x.found.decision.others)
					s.pools.selected(x, res.pool.ID)
					return finding{reservation: res, ok: true}
				}
				reason = reasonOf(verdict)
			}
			x.found.reject(m.ID(), reason)
		}
	}
	return finding{}
}

// refuse makes the refusal of a search that found no slot in any pool.
func (s *selector) refuse(x *search) *wire.Error {
	code, rejections := wire.AllCandidatesFullOrFailed, x.found.rejections
	if x.found.capable == 0 {
		for n := range s.fleet.Silent() {
			if s.picker.FilterDeclared(&x.query, n) == core.ReasonNone {
				rejections[core.ReasonStale]++
			}
		}
		if rejections[core.ReasonStale] == 0 {
			code = wire.NoCapableNode
		}
	}
	if s.silencedByStore(rejections) {
		return store.Unavailable()
	}
	x.request.refused = &refusedSelection{code: code, rejections: rejections, query: x.query, tried: x.tried}
	return refusalFor(x.request.spec, &x.query.Pools, code, rejections)
}

// silencedByStore reports whether nodes look silent because no heartbeat can be recorded: the store takes no writes.
func (s *selector) silencedByStore(rejections map[core.Reason]int) bool {
	return rejections[core.ReasonStale] > 0 && !s.store.reachable()
}

// refusalFor is the error for a job that no node can take, or none can take now.
func refusalFor(spec *core.Spec, rule *core.PoolRule, code wire.Code, rejections map[core.Reason]int) *wire.Error {
	e := &wire.Error{Code: code, Reasons: make(map[string]int, len(rejections))}
	for reason, n := range rejections {
		if reason != core.ReasonTenant || spec.Tenant == "" { // a tenant does not learn how many nodes others have
			e.Reasons[string(reason)] = n
		}
	}
	required, subject := describeRequirements(spec), subjectOf(rule, rejections)
	if code == wire.NoCapableNode {
		e.Detail = fmt.Sprintf("%s supports %s.", subject, required)
	} else {
		e = e.RetryIn(time.Second)
		e.Detail = fmt.Sprintf("%s that supports %s can take the job now: %s.", subject, required, listReasons(capableOnly(rejections)))
	}
	return e
}

// explainFull returns why a request is refused whose nodes were full when it began to wait, or for which others waited: nodes that are
// drained, ejected or away by now are not full. It is called when the wait is over, since it is a pass over the nodes of the direction.
func (s *selector) explainFull(spec *core.Spec, full *wire.Error) *wire.Error {
	q, route := s.queryOf(spec, nil)
	rejections := make(map[core.Reason]int)
	for _, reason := range s.picker.Members(&q, route) {
		if reason.WorthWaiting() || reason.Soft() {
			return full
		}
		rejections[reason]++
	}
	switch {
	case len(capableOnly(rejections)) == 0:
		return full
	case s.silencedByStore(rejections):
		return store.Unavailable()
	}
	return refusalFor(spec, &q.Pools, full.Code, rejections)
}

// remember remembers how a node was chosen.
func (s *selector) remember(r *slotRequest, res *reservation, drawn []core.Candidate, others map[core.Reason]int) {
	s.observer.NodeSelected(core.Decision{
		Job: r.job, Tenant: r.spec.Tenant, Attempt: r.attempt, AtMS: time.Now().UnixMilli(), Node: res.lease.Node, Pool: res.pool.ID,
		Candidates: drawn, Others: others,
	})
}

// decisionSoFar has the nodes that an exhaustive selection has probed: some of them, leaving room for the one that is chosen, and how many
// others were rejected.
type decisionSoFar struct {
	probed []core.Candidate
	others map[core.Reason]int
}

func (d *decisionSoFar) add(node core.NodeID, reason core.Reason) {
	if len(d.probed) < core.MaxCandidates-1 {
		d.probed = append(d.probed, core.Candidate{Node: node, Reason: reason})
	} else {
		d.others[reason]++
	}
}
