package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// Admitter is the part of the store with which slots of nodes are withheld.
type Admitter interface {
	Admit(ctx context.Context, p store.AdmitParams) (n *core.Node, admitted bool, err error)
}

// Ejector withholds the slots of nodes that fail much more often than others: all of them for a while, then all but one, then half of
// them. Its decisions are in the store, with the node, so that every instance applies them, and another leader continues them.
//
// A node that fails fast is never busy, so that without this it would attract most of the jobs.
type Ejector struct {
	Store   Admitter
	Fleet   *fleet.Fleet
	Events  *journal.Events
	Counted *prometheus.CounterVec // decisions, by decision and reason
	Log     *slog.Logger

	past pastEjections               // of nodes that may have left
	kept map[core.NodeID]fleet.Cover // nodes that were outliers at the last step and kept their slots, and for what
}

const (
	ejectFor     = 30 * time.Second // the first time; twice as long each further time in a row …
	ejectMost    = 10 * time.Minute // … but not longer than this
	ejectJitter  = 0.2              // and up to this share longer, so that nodes do not return together
	probationMin = 5 * time.Second  // with a success, a node on probation gets more slots after this
	probationFor = 30 * time.Second // and without any attempt after this
	// probationShare is the share of failures with which a node on probation is ejected again.
	probationShare = 0.5
	// forgetAfter is how long a node must have had all its slots for its earlier ejections to be forgotten.
	forgetAfter = 10 * time.Minute
	// maxEjections bounds how many nodes one step may eject: each is compared with the whole fleet.
	maxEjections = 10
)

// Judge decides about all nodes: which are ejected, and which get more slots again. It is called by the leader, with its fence.
func (e *Ejector) Judge(ctx context.Context, fence int64, seen Report, directions []core.Direction) {
	if e.past == nil {
		e.past = make(pastEjections)
	}
	kept := make(map[core.NodeID]fleet.Cover)
	defer func() { e.kept = kept }()
	now := time.Now()
	e.past.forgetOld(now)
	var limited, outliers []*core.Node
	for n := range e.Fleet.All() {
		if declared := n.Declared(); declared.Admission.Limited || declared.Admission.Times > 0 {
			limited = append(limited, declared)
			e.past.remember(declared.ID, declared.Admission.Times, now)
		} else if seen.Outlier(n.ID()) != "" && len(outliers) < maxEjections {
			outliers = append(outliers, declared)
		}
	}
	if len(limited)+len(outliers) == 0 {
		return
	}
	step := &step{Ejector: e, fence: fence, seen: &seen, covers: e.coverage(directions, append(limited, outliers...)), kept: kept}
	for _, n := range limited {
		step.continueWith(ctx, n)
	}
	for _, n := range outliers {
		step.eject(ctx, n, seen.Outlier(n.ID))
	}
}

// Lift gives all nodes all their slots, for a cluster in which nobody is ejected any more: limits do not end by themselves.
func (e *Ejector) Lift(ctx context.Context, fence int64, _ Report, _ []core.Direction) {
	clear(e.past)
	for n := range e.Fleet.All() {
		if declared := n.Declared(); declared.Admission != (core.Admission{}) {
			(&step{Ejector: e, fence: fence}).admit(ctx, declared, core.Admission{}, 0)
		}
	}
}

// step is one round of decisions.
type step struct {
	*Ejector
	fence  int64
	seen   *Report
	covers *fleet.Coverage
	kept   map[core.NodeID]fleet.Cover // the nodes that keep their slots at this step
}

// eject withholds all slots of a node, unless they are needed.
func (s *step) eject(ctx context.Context, n *core.Node, reason core.AdmissionReason) {
	if cause, by := s.neededBy(n); cause != "" {
		s.keep(n, reason, cause, by)
		return
	}
	times := max(n.Admission.Times, s.past[n.ID].times) + 1
	lasts := time.Duration(math.Min(float64(ejectMost), float64(ejectFor)*math.Pow(2, float64(times-1))))
	lasts += time.Duration(rand.Float64() * ejectJitter * float64(lasts))
	if !s.admit(ctx, n, core.Admission{Limited: true, Slots: 0, Reason: reason, Times: times}, lasts) {
		return
	}
	s.past.remember(n.ID, times, time.Now()) // it may leave before the next step
	s.Counted.WithLabelValues(telemetry.AdmissionEjected, string(reason)).Inc()
	s.Log.Warn("a node fails much more often than others: it gets no jobs for a while", "node_id", n.ID, "reason", reason, "times", times,
		"for", lasts.Round(time.Second))
	s.Events.Record(store.Event{Kind: store.EventNodeEjected, Node: n.ID, Tenant: n.Tenant,
		Detail: string(reason) + ", for " + lasts.Round(time.Second).String()})
}

// keep leaves a node its slots although it should be ejected. The event is recorded once, not at every step.
func (s *step) keep(n *core.Node, reason core.AdmissionReason, cause string, by fleet.Cover) {
	s.Counted.WithLabelValues(telemetry.AdmissionWithheld, cause).Inc()
	s.kept[n.ID] = by
	if _, known := s.Ejector.kept[n.ID]; known {
		return
	}
	why := "is the last ready node"
	if cause == telemetry.WithheldHalf {
		why = "has slots of the half that must stay"
	}
	s.Log.Warn("a node fails much more often than others, and is not ejected because it is needed", "node_id", n.ID, "reason", reason,
		"needed_by", by.String())
	s.Events.Record(store.Event{
		Kind: store.EventCoverage, Node: n.ID, Tenant: n.Tenant, Detail: fmt.Sprintf("%s, and not ejected: it %s of %s", reason, why, by),
	})
}

// continueWith decides about a node that was ejected: whether its time is over, and whether it may have more slots.
func (s *step) continueWith(ctx context.Context, n *core.Node) {
	a, now := n.Admission, s.storeTime(n)
	since, ends := now.Sub(a.Since), a.Remaining(now) == 0
	own := s.seen.Nodes[n.ID]
	switch {
	case a.Limited && s.isLast(n):
		s.readmit(ctx, n, n.MaxJobs, ejectFor)
	case !a.Limited && !ends: // it was readmitted because it was needed
	case !a.Limited && s.seen.Outlier(n.ID) != "":
		s.eject(ctx, n, s.seen.Outlier(n.ID))
	case !a.Limited && since >= forgetAfter:
		if s.admit(ctx, n, core.Admission{}, 0) {
			delete(s.past, n.ID)
		}
	case !a.Limited: // it has all its slots, and its ejections are remembered
	case a.Ejected() && ends:
		s.readmit(ctx, n, 1, 0)
	case a.Ejected():
	case own.Failed > 0 && own.share() >= probationShare:
		s.eject(ctx, n, a.Reason)
	case ends || since >= probationMin && own.Ended > own.Failed:
		s.readmit(ctx, n, nextSlots(a.Slots, n.MaxJobs), 0)
	}
}

// storeTime returns the time on the clock of the store, by which the times of an admission are judged. The clock of this machine is another
// one. Before the store's is known, it is when the admission was decided: no time has passed.
func (s *step) storeTime(n *core.Node) time.Time {
	if known := s.Fleet.Node(n.ID); known != nil {
		if now := known.StoreTime(s.Fleet.Now()); !now.IsZero() {
			return now
		}
	}
	return n.Admission.Since
}

// nextSlots returns how many slots a node on probation gets next: half of them after one, and then all.
func nextSlots(slots, all int) int {
	if half := all / 2; slots < half {
		return half
	}
	return all
}

// readmit gives a node so many slots again. With all of them it is not ejected for a while: one that is needed whenever another is away
// would be ejected and readmitted again and again.
func (s *step) readmit(ctx context.Context, n *core.Node, slots int, lasts time.Duration) {
	a := core.Admission{Limited: slots < n.MaxJobs, Reason: n.Admission.Reason, Times: n.Admission.Times}
	if a.Limited {
		a.Slots, lasts = slots, probationFor
	}
	if !s.admit(ctx, n, a, lasts) {
		return
	}
	s.Counted.WithLabelValues(telemetry.AdmissionReadmitted, string(n.Admission.Reason)).Inc()
	if !a.Limited {
		s.Log.Info("a node that was ejected has all its slots again", "node_id", n.ID)
		s.Events.Record(store.Event{Kind: store.EventNodeReadmitted, Node: n.ID, Tenant: n.Tenant})
	}
}

// admit writes a decision. It reports whether it stands.
func (s *step) admit(ctx context.Context, n *core.Node, a core.Admission, lasts time.Duration) bool {
	decided, admitted, err := s.Store.Admit(ctx, store.AdmitParams{Node: n.ID, Fence: s.fence, Admission: a, For: lasts})
	switch {
	case errors.Is(err, store.ErrNoNode):
		return false
	case err != nil:
		s.Log.Warn("a decision about the slots of a node could not be written; it is made again", "node_id", n.ID, "error", err)
		return false
	case admitted:
		s.Fleet.Redeclare(decided)
		s.recount(n, decided)
	}
	return admitted
}

// recount counts a node as it is after a decision.
func (s *step) recount(before, after *core.Node) {
	if s.covers == nil {
		return
	}
	was, is := s.Fleet.CoveringNode(before), s.Fleet.CoveringNode(after)
	s.covers.Replace(&was, &is)
}

// coverage returns how well the directions are covered that some of the nodes serve, in each pool and for each tenant that depends on them.
func (e *Ejector) coverage(directions []core.Direction, of []*core.Node) *fleet.Coverage {
	var served []core.Direction
	for _, d := range directions {
		r := core.NewRequirement(d, false)
		if slices.ContainsFunc(of, func(n *core.Node) bool { return r.Mismatch(&n.Capability) == core.ReasonNone }) {
			served = append(served, d)
		}
	}
	return e.Fleet.Cover(served)
}

// neededBy says why a node must keep its slots, and for what: one of the directions that were requested lately would have no other node, in
// a pool or for a tenant, or less than half of its slots. Empty: nothing needs it.
func (s *step) neededBy(n *core.Node) (cause string, by fleet.Cover) {
	counted := s.Fleet.CoveringNode(n)
	for cover, rest := range s.covers.Needs(&counted) {
		switch {
		case rest.Ready == 0:
			return telemetry.WithheldLast, cover
		case cause == "" && 2*(rest.Withheld+n.MaxJobs) > rest.Slots+n.MaxJobs:
			cause, by = telemetry.WithheldHalf, cover
		}
	}
	return cause, by
}

// isLast reports whether a direction has no node, in a pool or for a tenant, because one that was ejected gets no jobs.
func (s *step) isLast(n *core.Node) bool {
	counted := s.Fleet.CoveringNode(n)
	for _, rest := range s.covers.Needs(&counted) {
		if rest.Ready == 0 && n.Slots() == 0 {
			return true
		}
	}
	return false
}
