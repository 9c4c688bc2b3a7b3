package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// search is a search for a node that certainly has room.
type search struct {
	job     core.JobID
	spec    *core.Spec
	attempt int
	token   core.Token
	tried   []core.NodeID
	shun    core.InstanceID // whose nodes are better left alone
	// accepted says that the job has a record: it is seen through, and a preference that cannot be met any more yields.
	accepted bool
	again    bool // it is looked for more than once: a refusal is counted when the last try was in vain
}

// found is a node with a slot reserved on it.
type found struct {
	member fleet.Member
	epoch  core.Epoch
	ref    core.LeaseRef
}

// probeBatch is how many nodes are asked at once how full they are.
const probeBatch = 64

// find reserves a slot on a node that can do the job: the preferred one, one of a random sample, or, before
// anybody is refused, any.
func (d *Dispatcher) find(ctx context.Context, s *search) (found, *wire.Error) {
	partial := d.fleet.Partial() // before the members are read: what follows is judged by it
	o := &s.spec.Options
	pool := d.fleet.Pool(s.spec.Direction, o.RequireTTS)
	q := pick.Query{
		Requirement: &pool.Requirement, Options: o, Tenant: s.spec.Tenant, Tried: s.tried,
		Avoid: d.spread.last(s.spec.SessionRef()), Exclude: s.shun, Now: d.fleet.Now(),
	}
	if o.PreferredNode != "" && len(s.tried) == 0 {
		f, ok, refusal := d.findPreferred(ctx, s, &q)
		if ok || refusal != nil {
			return f, refusal
		}
	}
	members := pool.Members()
	d.metrics.CountPoolQuery(members.Len())

	round := d.picker.Begin(q, members)
	defer round.End()
	for m := round.Next(); m.Node != nil; m = round.Next() {
		f, verdict, err := d.reserve(ctx, s, &q, m)
		if err != nil {
			return found{}, down()
		}
		if verdict == store.OK {
			return f, nil
		}
	}
	if partial {
		return found{}, wire.Errorf(wire.SchedulerDependencyDown,
			"this instance has just started and does not know every node yet: try again, or another").RetryIn(time.Second)
	}
	return d.findAny(ctx, s, &q, round)
}

// insists reports whether a preferred node that cannot do the job is an error: the caller can still be told, or wants
// no other node.
func (s *search) insists() bool { return !s.accepted || s.spec.Options.Strict }

// findPreferred tries the node the caller asked for. It reports false when the random path is to be taken.
func (d *Dispatcher) findPreferred(ctx context.Context, s *search, q *pick.Query) (found, bool, *wire.Error) {
	id := s.spec.Options.PreferredNode
	reason := core.ReasonStale
	n := d.fleet.Node(id)
	if n == nil {
		// It may be away, which is another thing than being unable.
		_, err := d.store.Node(ctx, id)
		switch {
		case err != nil && !errors.Is(err, store.ErrNoNode):
			d.storeFailed("node", err)
			return found{}, false, down()
		case err != nil && s.insists():
			return found{}, false, &wire.Error{
				Code: wire.PreferredNodeNotCapable, Field: "options.preferred_node_id",
				Detail: fmt.Sprintf("options.preferred_node_id: no node %s is registered; name another one or none", id),
			}
		}
	} else {
		m := fleet.Member{Node: n, Revision: n.Declared().Revision, Handle: n.Handle()}
		reason = d.picker.Objection(q, n)
		if reason.Incapable() && s.insists() {
			return found{}, false, &wire.Error{
				Code: wire.PreferredNodeNotCapable, Field: "options.preferred_node_id",
				Detail:  fmt.Sprintf("options.preferred_node_id: node %s cannot do this job (%s); name another one or none", id, reason),
				Reasons: map[string]int{string(reason): 1},
			}
		}
		if reason == core.ReasonNone || reason.Soft() {
			f, verdict, err := d.reserve(ctx, s, q, m)
			switch {
			case err != nil:
				return found{}, false, down()
			case verdict == store.OK:
				return f, true, nil
			}
			if reason = reasonOf(verdict); reason == core.ReasonNotReady {
				var full [1]store.Occupancy
				if err := d.store.Probe(ctx, []core.NodeID{id}, full[:]); err == nil {
					reason = unfree(&full[0])
				}
			}
		}
	}
	d.log.Info("preferred node not used", "job_id", s.job, "node_id", id, "reason", reason)
	if s.spec.Options.Strict {
		e := wire.Errorf(wire.AllCandidatesFullOrFailed,
			"options.preferred_node_id: node %s cannot take the job now (%s) and strict is set; try again, or without strict", id, reason)
		e.Reasons = map[string]int{string(reason): 1}
		return found{}, false, e.RetryIn(time.Second)
	}
	return found{}, false, nil
}

// findAny is the search before a refusal. It asks how full the nodes are, in batches and without reserving,
// and then reserves one by one: what is believed about them only orders the search.
func (d *Dispatcher) findAny(ctx context.Context, s *search, q *pick.Query, round *pick.Round) (found, *wire.Error) {
	survey := round.Survey()
	if survey.Capable == 0 {
		for n := range d.fleet.Silent() {
			if d.picker.Never(q, n) == core.ReasonNone {
				survey.Objections[core.ReasonStale]++
			}
		}
		if survey.Objections[core.ReasonStale] == 0 {
			return found{}, d.refuse(s, wire.NoCapableNode, survey.Objections)
		}
	}
	// Preferences yield from here on; each of their nodes is counted by what becomes of it.
	delete(survey.Objections, core.ReasonSpread)
	delete(survey.Objections, core.ReasonSetAside)
	var ids [probeBatch]core.NodeID
	for batch := range slices.Chunk(survey.Rest, probeBatch) {
		for i, m := range batch {
			ids[i] = m.ID()
		}
		look, err := d.looks.at(ctx, ids[:len(batch)])
		if err != nil {
			return found{}, down()
		}
		for _, m := range batch {
			full := look.of(m.ID())
			d.fleet.Observe(m.Node, full.InFlight(), full.Max, q.Now)
			reason := unfree(full)
			if look.claim(m.ID()) {
				f, verdict, err := d.reserve(ctx, s, q, m)
				if err != nil || verdict != store.OK && verdict != store.Full {
					look.giveBack(m.ID())
				}
				if err != nil {
					return found{}, down()
				}
				if verdict == store.OK {
					return f, nil
				}
				reason = reasonOf(verdict)
			}
			survey.Objections[reason]++
		}
	}
	return found{}, d.refuse(s, wire.AllCandidatesFullOrFailed, survey.Objections)
}

// otherThan reports whether some other node than the given ones is there for a job, if only it had room: one that is
// registered but has left, is drained or lacks something is not worth waiting for.
func (d *Dispatcher) otherThan(nodes []core.NodeID, spec *core.Spec) bool {
	pool := d.fleet.Pool(spec.Direction, spec.Options.RequireTTS)
	q := pick.Query{Requirement: &pool.Requirement, Options: &spec.Options, Tenant: spec.Tenant, Tried: nodes, Now: d.fleet.Now()}
	for m := range pool.Members().All() {
		switch d.picker.Objection(&q, m.Node) {
		case core.ReasonNone, core.ReasonSetAside, core.ReasonCPU, core.ReasonGPU, core.ReasonMemory:
			return true
		}
	}
	return false
}

// reserve asks the ledger for a slot of one node. A node that has changed since it was chosen is looked at
// again and, if it still suits, asked once more.
func (d *Dispatcher) reserve(ctx context.Context, s *search, q *pick.Query, m fleet.Member) (found, store.Verdict, error) {
	for again := false; ; again = true {
		f := found{
			member: m, epoch: m.Epoch(),
			ref: core.LeaseRef{Node: m.ID(), Job: s.job, Attempt: s.attempt, Token: s.token},
		}
		r, err := d.store.Reserve(ctx, store.ReserveParams{
			Lease: f.ref, Handle: m.Handle, Epoch: f.epoch, Revision: m.Revision,
		})
		if err != nil {
			d.storeFailed("reserve", err)
			d.release(f.ref, m.Node, false) // it may have been granted
			return found{}, 0, err
		}
		d.metrics.CountReserve(r.Verdict)
		switch r.Verdict {
		case store.OK, store.Full:
			d.fleet.ObserveFree(m.Node, r.Free, q.Now)
		case store.UnknownNode:
			d.fleet.Remove(m.ID())
		case store.TooLate:
			return found{}, r.Verdict, context.DeadlineExceeded
		case store.StaleEpoch, store.StaleRevision:
			if again {
				return found{}, r.Verdict, nil
			}
			status, err := d.store.Node(ctx, m.ID())
			if err != nil {
				return found{}, r.Verdict, nil //nolint:nilerr // the verdict is answer enough: it is not this node
			}
			d.fleet.Update(status)
			if r := d.picker.Objection(q, m.Node); r != core.ReasonNone && !r.Soft() {
				return found{}, store.StaleRevision, nil
			}
			m.Revision = m.Declared().Revision
			continue
		}
		return f, r.Verdict, nil
	}
}

// unfree says why a node without a free slot has none.
func unfree(o *store.Occupancy) core.Reason {
	switch {
	case o.Held:
		return core.ReasonHeld
	case o.Closed:
		return core.ReasonNotReady
	}
	return core.ReasonFull
}

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

// refuse makes the refusal of a search and counts it.
func (d *Dispatcher) refuse(s *search, code wire.Code, objections map[core.Reason]int) *wire.Error {
	e := &wire.Error{Code: code, Reasons: make(map[string]int, len(objections))}
	for reason, n := range objections {
		e.Reasons[string(reason)] = n
	}
	telling := objections
	if code != wire.NoCapableNode {
		telling = capableOnly(objections)
	}
	wanted := wantedOf(s.spec)
	if code == wire.NoCapableNode {
		e.Detail = fmt.Sprintf("No node supports %s.", wanted)
	} else {
		e = e.RetryIn(time.Second)
		e.Detail = fmt.Sprintf("No node that supports %s can take the job now: %s.", wanted, tally(telling))
	}
	if !s.again {
		d.countRefusal(code, objections, telling)
	}
	return e
}

// countRefusal counts why a search found nobody; the reason that speaks against most nodes stands for all.
func (d *Dispatcher) countRefusal(code wire.Code, objections, telling map[core.Reason]int) {
	for reason, n := range objections {
		d.metrics.CandidatesRejected.WithLabelValues(string(reason)).Add(float64(n))
	}
	var worst core.Reason
	for reason, n := range telling {
		if n > telling[worst] || n == telling[worst] && reason < worst {
			worst = reason
		}
	}
	d.metrics.NodeSelection.WithLabelValues(string(code)).Inc()
	d.metrics.NoAvailableNode.WithLabelValues(selectorOf(worst), string(worst)).Inc()
}

// maxWanted is how many requirements of a job an error text names.
const maxWanted = 8

// wantedOf says in words what a job asks of a node.
func wantedOf(spec *core.Spec) string {
	src, tgt := spec.Direction.Src, spec.Direction.Tgt
	parts := []string{fmt.Sprintf("semantic(%s)", src), fmt.Sprintf("nmt(%s->%s)", src, tgt)}
	o := &spec.Options
	if o.RequireTTS {
		parts = append(parts, fmt.Sprintf("tts(%s)", tgt))
	}
	for kind, names := range map[string][]string{"service": o.RequiredServices, "model": o.RequiredModels, "feature": o.Features} {
		for _, name := range names {
			parts = append(parts, fmt.Sprintf("%s(%s)", kind, wire.Quote(name)))
		}
	}
	if o.Region != "" {
		parts = append(parts, fmt.Sprintf("region(%s)", wire.Quote(o.Region)))
	}
	slices.Sort(parts[2:])
	if more := len(parts) - maxWanted; more > 0 {
		parts = append(parts[:maxWanted], fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, " + ")
}

// tally lists reasons with their counts, the most frequent first.
func tally(objections map[core.Reason]int) string {
	reasons := slices.SortedFunc(maps.Keys(objections), func(a, b core.Reason) int {
		if n := objections[b] - objections[a]; n != 0 {
			return n
		}
		return strings.Compare(string(a), string(b))
	})
	parts := make([]string, len(reasons))
	for i, r := range reasons {
		parts[i] = fmt.Sprintf("%s %d", r, objections[r])
	}
	return strings.Join(parts, ", ")
}

// selectorOf says which requirement a reason is about.
func selectorOf(r core.Reason) string {
	switch r {
	case core.ReasonModelMissing, core.ReasonServiceMissing, core.ReasonServiceNotReady, core.ReasonMarked,
		core.ReasonASRNotReady, core.ReasonSemanticNotReady, core.ReasonNMTNotReady, core.ReasonTTSNotReady:
		return "models"
	case core.ReasonFeatureMissing:
		return "features"
	}
	return "reserve"
}
