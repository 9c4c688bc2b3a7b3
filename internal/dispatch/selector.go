package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/internal/tracing"
	"github.com/lingua-scheduler/lingua/internal/waiting"
	"github.com/lingua-scheduler/lingua/wire"
)

// selector chooses a node for a job and reserves a slot on it, or refuses with the reasons.
type selector struct {
	store    *storeClient
	fleet    *fleet.Fleet
	picker   *pick.Picker
	slots    *slots
	prober   *prober
	pools    poolCounter
	waiting  *waiting.Queue
	observer Observer
	metrics  *telemetry.Metrics
	log      *slog.Logger
}

func newSelector(
	st *storeClient, fl *fleet.Fleet, pk *pick.Picker, sl *slots, decide *run.Limit, m *telemetry.Metrics, log *slog.Logger,
) *selector {
	s := &selector{store: st, fleet: fl, picker: pk, slots: sl, metrics: m, log: log, pools: poolCounter{m.Pools, fl, pk}}
	s.prober = newProber(
		func(fn func()) { sl.tasks.Go(func(context.Context) { fn() }) },
		func(nodes []core.NodeID, into []store.Occupancy) error {
			err := st.Probe(decide.Context(), nodes, into)
			if err != nil {
				st.RecordError("probe", err)
			}
			return err
		})
	return s
}

// slotRequest asks for a slot for one attempt of a job.
type slotRequest struct {
	job        core.JobID
	spec       *core.Spec
	attempt    int
	token      core.Token
	tried      []core.NodeID   // nodes that must not get the job
	avoidOwner core.InstanceID // its nodes are chosen only if there are no others
	claims     *waiting.Claims // of requests that wait for slots, which are not taken from them; nil: nobody waits
	firstPool  core.PoolID     // the capability pool that is tried first if it is eligible; empty: none
	offered    core.NodeID     // the only node that is tried, because a slot of it was offered; empty: any node
	// recorded means that the job has a record: it is run to its end, so a preference that cannot be met is dropped.
	recorded bool

	steps *tracing.Steps // of the trace; nil: they are not recorded

	refused *refusedSelection // what the last selection found, if it found no slot. The caller counts it if the job is refused.
}

// requirePreferred reports whether an incapable preferred node is an error: the caller can still be refused, or accepts no
// other node.
func (r *slotRequest) requirePreferred() bool { return !r.recorded || r.spec.Options.Strict }

// reservation is a slot that was reserved on a node. It counts as a job of this instance there, until slots.giveUp or the end of the job
// that gets it.
type reservation struct {
	member     fleet.Member
	epoch      core.Epoch
	lease      core.LeaseRef
	reservedAt time.Time // before the store was called: the age of the lease is counted from then
	pool       core.JobPool
}

// selectNode reserves a slot on a node that can do the job: the preferred node, one of a random sample, or any capable node. The eligible
// pools come before all others: a job leaves them only if none of their nodes has a free slot.
func (s *selector) selectNode(ctx context.Context, r *slotRequest) (_ reservation, refusal *wire.Error) {
	step := r.steps.Begin(tracing.SpanSelect)
	defer func() { step.End(codeOf(refusal)) }()
	for {
		if f := s.selectOnce(ctx, r); !f.closed { // else other pools were published meanwhile, or the indexes were not used for long
			return f.reservation, f.refusal
		}
	}
}

// search is a selection that is being made, with the indexes as they are.
type search struct {
	request *slotRequest
	query   pick.Query
	route   *fleet.Route // has all nodes for the direction
	tried   triedPools
	found   surveyResult
}

// finding is how a step of a search has ended: with a slot, because the indexes were closed, or with an error. Otherwise the search goes
// on.
type finding struct {
	reservation
	ok      bool
	closed  bool
	refusal *wire.Error
}

func (f *finding) isFinal() bool { return f.ok || f.closed || f.refusal != nil }

// selectOnce is selectNode with the indexes as they are.
func (s *selector) selectOnce(ctx context.Context, r *slotRequest) finding {
	if r.spec.TestJob {
		return s.selectForTestJob(ctx, r)
	}
	partial := s.fleet.Partial() // before the members are read: it says whether they are all
	o := &r.spec.Options
	r.refused = nil
	x := search{request: r, route: s.fleet.Route(r.spec.Direction, o.RequireTTS)}
	x.query = pick.Query{
		Requirement: x.route.Requirement, Options: o, Tenant: r.spec.Tenant, Pools: core.NewPoolRule(x.route.Division, r.spec),
		Tried:    r.tried,
		LastNode: r.spec.LastNode, AvoidOwner: r.avoidOwner, Now: s.fleet.Now(),
	}
	if r.offered != "" {
		return s.selectOffered(ctx, &x)
	}
	if o.Preferred() != "" && len(r.tried) == 0 {
		res, ok, refusal := s.selectPreferred(ctx, &x)
		if ok {
			res.pool = poolOf(&x.query, res.member.Declared())
			s.pools.selected(&x, res.pool.ID)
			s.remember(r, &res, []core.Candidate{{Node: res.lease.Node}}, nil)
		}
		if ok || refusal != nil {
			return finding{reservation: res, ok: ok, refusal: refusal}
		}
	}
	s.metrics.CountPoolQuery(x.route.For(r.spec.Tenant).IsEmpty())
	sampled := s.sampledRoutes(r.spec, x.route)
	for _, group := range [...]pick.Group{pick.Eligible, pick.Others} {
		for i, route := range sampled {
			if x.query.Region = ""; i == 0 {
				x.query.Region = o.PreferredRegion // the route may have nodes of other regions: there may be no index of this one
			}
			if f := s.selectSampled(ctx, &x, route, group); f.isFinal() {
				return f
			}
		}
		if partial {
			continue // the group may have nodes that this instance does not know of
		}
		if f := s.selectAny(ctx, &x, group); f.isFinal() {
			return f
		}
	}
	if partial {
		return finding{refusal: wire.Errorf(wire.SchedulerDependencyDown,
			"this instance has just started and does not know every node yet: try again, or another").RetryIn(time.Second)}
	}
	return finding{refusal: s.refuse(&x)}
}

// sampledRoutes returns what samples are taken from, one after the other: the nodes that have what the job requires, those of its preferred
// region first. All nodes of the direction are in route. A route may be nil.
func (s *selector) sampledRoutes(spec *core.Spec, route *fleet.Route) (routes [2]*fleet.Route) {
	o := &spec.Options
	restriction := core.RestrictionOf(o)
	if restriction.Empty() && o.PreferredRegion == "" {
		return [2]*fleet.Route{route}
	}
	if o.PreferredRegion != "" && (o.Region == "" || o.Region == o.PreferredRegion) {
		near := restriction
		near.Region = o.PreferredRegion
		routes[0] = s.fleet.RestrictedRoute(spec.Direction, o.RequireTTS, &near)
	}
	routes[1] = s.fleet.RestrictedRoute(spec.Direction, o.RequireTTS, &restriction)
	return routes
}

// selectSampled tries random samples of the nodes of one pool of a group after the other. The route may be nil.
func (s *selector) selectSampled(ctx context.Context, x *search, route *fleet.Route, group pick.Group) finding {
	switch {
	case route == nil:
		return finding{}
	case route.Division != x.route.Division:
		return finding{closed: true}
	}
	r, q := x.request, &x.query
	selection := s.picker.Select(*q, route.For(q.Tenant), group, r.firstPool)
	defer selection.End()
	for range maxSampledPools {
		pool, ok := selection.NextPool()
		if !ok {
			break
		}
		x.tried.begin(pool)
		drawn := len(selection.Drawn())
		for m := selection.Next(); m.Node != nil; m = selection.Next() {
			res, verdict, err := s.reserve(ctx, x, q, m)
			if err != nil {
				return finding{refusal: store.Unavailable()}
			}
			if verdict == store.OK {
				res.pool = core.JobPool{ID: pool, Bound: q.Pools.Job.Bound}
				if res.member.Revision != m.Revision { // it has changed, and may be in another pool now
					res.pool = poolOf(q, res.member.Declared())
				}
				s.remember(r, &res, selection.Drawn(), nil)
				s.pools.selected(x, res.pool.ID)
				return finding{reservation: res, ok: true}
			}
			selection.Reject(m.ID(), reasonOf(verdict))
		}
		if q.Pools.Division != nil {
			x.tried.fail(pool, mainReason(selection.Drawn()[drawn:]))
		}
	}
	return finding{}
}

// unknownPreferred refuses a preferred node that is not registered, or that belongs to another tenant, of which nobody else learns.
func unknownPreferred(id core.NodeID) *wire.Error {
	return &wire.Error{
		Code: wire.PreferredNodeNotCapable, Field: "options.preferred_node_id",
		Detail: fmt.Sprintf("options.preferred_node_id: no node %s is registered; name another one or none", id),
	}
}

// selectPreferred tries the node that the client prefers. It returns false without an error when another node is to be
// selected.
func (s *selector) selectPreferred(ctx context.Context, x *search) (reservation, bool, *wire.Error) {
	r, q := x.request, &x.query
	id := r.spec.Options.Preferred()
	reason := core.ReasonStale
	n := s.fleet.Node(id)
	switch {
	case n == nil:
		// A node that is registered but silent is away, not incapable.
		silent, err := store.ReadNode(ctx, s.store, id)
		switch {
		case err != nil && !errors.Is(err, store.ErrNoNode):
			s.store.RecordError("node", err)
			return reservation{}, false, store.Unavailable()
		case r.requirePreferred() && (err != nil || !silent.Node.Serves(r.spec.Tenant)):
			return reservation{}, false, unknownPreferred(id)
		}
	case !n.Declared().Serves(r.spec.Tenant):
		if r.requirePreferred() {
			return reservation{}, false, unknownPreferred(id)
		}
		reason = core.ReasonTenant
	default:
		m := fleet.MemberOf(n)
		reason = s.picker.Filter(q, n)
		if reason.Incapable() && r.requirePreferred() {
			return reservation{}, false, &wire.Error{
				Code: wire.PreferredNodeNotCapable, Field: "options.preferred_node_id",
				Detail:  fmt.Sprintf("options.preferred_node_id: node %s cannot do this job (%s); name another one or none", id, reason),
				Reasons: map[string]int{string(reason): 1},
			}
		}
		if reason == core.ReasonNone || reason.Soft() {
			res, verdict, err := s.reserve(ctx, x, q, m)
			switch {
			case err != nil:
				return reservation{}, false, store.Unavailable()
			case verdict == store.OK:
				return res, true, nil
			}
			if reason = reasonOf(verdict); reason == core.ReasonNotReady {
				var occupancy [1]store.Occupancy
				if err := s.store.Probe(ctx, []core.NodeID{id}, occupancy[:]); err == nil {
					reason = unfreeReason(&occupancy[0])
				}
			}
		}
	}
	s.log.Info("preferred node not used", "job_id", r.job, "node_id", id, "reason", reason)
	if r.spec.Options.Strict {
		e := wire.Errorf(wire.AllCandidatesFullOrFailed,
			"options.preferred_node_id: node %s cannot take the job now (%s) and strict is set; try again, or without strict", id, reason)
		e.Reasons = map[string]int{string(reason): 1}
		return reservation{}, false, e.RetryIn(time.Second)
	}
	return reservation{}, false, nil
}

// selectOffered reserves the slot that a request was offered. If that is not possible, the request waits for the next offer. The instance
// that made the offer has seen that the node gets jobs, and the ledger decides: what this one believes about its load and its last
// heartbeat may be old.
func (s *selector) selectOffered(ctx context.Context, x *search) finding {
	id := x.request.offered
	n := s.fleet.Node(id)
	if n == nil { // it may have joined just now
		if status, err := store.ReadNode(ctx, s.store, id); err == nil {
			s.fleet.Update(status)
			n = s.fleet.Node(id)
		}
	}
	if n == nil || slices.Contains(x.query.Tried, id) || s.picker.FilterDeclared(&x.query, n.Declared()) != core.ReasonNone {
		return finding{refusal: waiting.Full()}
	}
	res, verdict, err := s.reserve(ctx, x, &x.query, fleet.MemberOf(n))
	switch {
	case err != nil:
		return finding{refusal: store.Unavailable()}
	case verdict != store.OK:
		return finding{refusal: waiting.Full()}
	}
	res.pool = poolOf(&x.query, res.member.Declared())
	s.pools.selected(x, res.pool.ID)
	s.remember(x.request, &res, []core.Candidate{{Node: res.lease.Node}}, nil)
	return finding{reservation: res, ok: true}
}

// hasOther reports whether a node other than the given ones could take a job if it had a free slot. A node that is drained,
// disconnected or lacks a requirement is not worth waiting for.
func (s *selector) hasOther(nodes []core.NodeID, spec *core.Spec) bool {
	q, route := s.queryOf(spec, nodes)
	for _, reason := range s.picker.Members(&q, route) {
		if reason.WorthWaiting() {
			return true
		}
	}
	return false
}

// queryOf returns a query for all nodes that could take a job, and their route.
func (s *selector) queryOf(spec *core.Spec, tried []core.NodeID) (pick.Query, *fleet.Route) {
	route := s.fleet.Route(spec.Direction, spec.Options.RequireTTS)
	return pick.Query{
		Requirement: route.Requirement, Options: &spec.Options, Tenant: spec.Tenant, Pools: core.NewPoolRule(route.Division, spec),
		Tried: tried, Now: s.fleet.Now(),
	}, route
}

// reserve asks the ledger for a slot of one node. If the node has changed since it was chosen, it is filtered again and, if
// it passes, asked once more.
func (s *selector) reserve(ctx context.Context, x *search, q *pick.Query, m fleet.Member) (reservation, store.Verdict, error) {
	r := x.request
	if r.claims.Want(m.Node) {
		return reservation{}, store.Full, nil // its slots are for those who wait
	}
	for again := false; ; again = true {
		res := reservation{
			member: m, epoch: m.Epoch, reservedAt: time.Now(),
			lease: core.LeaseRef{Node: m.ID(), Job: r.job, Attempt: r.attempt, Token: r.token},
		}
		step := r.steps.Begin(tracing.SpanReserve)
		reply, err := s.askLedger(ctx, store.ReserveParams{
			Lease: res.lease, Handle: m.Handle(), Epoch: res.epoch, Revision: m.Revision, Probe: r.spec.TestJob,
		}, m.Node, q.Now)
		if step.Recording() {
			step.Set(tracing.Text(tracing.AttrNode, m.ID()), tracing.Text(tracing.AttrVerdict, reply.Verdict.String()))
		}
		step.End(storeFailure(err))
		if err != nil {
			s.slots.releaseUncertain(res.lease, m.Node) // it may have been granted
			return reservation{}, 0, err
		}
		switch reply.Verdict {
		case store.UnknownNode:
			s.fleet.Remove(m.ID())
		case store.TooLate:
			return reservation{}, reply.Verdict, context.DeadlineExceeded
		case store.StaleEpoch, store.StaleRevision:
			if again {
				return reservation{}, reply.Verdict, nil
			}
			status, err := store.ReadNode(ctx, s.store, m.ID())
			if err != nil {
				return reservation{}, reply.Verdict, nil //nolint:nilerr // the verdict says enough: not this node
			}
			s.fleet.Update(status)
			m = fleet.MemberOf(m.Node)
			if reason := s.filter(r, q, m.Node); reason != core.ReasonNone && !reason.Soft() {
				return reservation{}, store.StaleRevision, nil
			}
			continue
		}
		return res, reply.Verdict, nil
	}
}

// askLedger makes one reservation. The slot counts as taken by this instance from before the ledger is asked, and on if it is granted.
func (s *selector) askLedger(ctx context.Context, p store.ReserveParams, n *fleet.Node, now fleet.Instant) (store.Reservation, error) {
	n.BeginJob()
	reply, err := s.store.Reserve(ctx, p)
	if err != nil || reply.Verdict != store.OK {
		n.EndJob()
	}
	if err != nil {
		s.store.RecordError("reserve", err)
		return reply, err
	}
	if p.Probe { // it is not counted, and may use slots that other jobs may not: the reply does not say how many these have
		return reply, nil
	}
	s.metrics.CountReserve(reply.Verdict)
	if reply.Verdict == store.OK || reply.Verdict == store.Full {
		s.fleet.ObserveFree(n, reply.Free, now)
	}
	return reply, nil
}

// unfreeReason says why a node without a free slot has none.
func unfreeReason(o *store.Occupancy) core.Reason {
	switch {
	case o.Held:
		return core.ReasonHeld
	case o.Closed:
		return core.ReasonNotReady
	case o.Ejected():
		return core.ReasonEjected
	}
	return core.ReasonFull
}

// reasonOf returns the reason for a verdict other than OK.
func reasonOf(v store.Verdict) core.Reason {
	switch v {
	case store.Full:
		return core.ReasonFull
	case store.NoCapacity:
		return core.ReasonNoCapacity
	case store.NotReady:
		return core.ReasonNotReady
	}
	return core.ReasonChanged
}
