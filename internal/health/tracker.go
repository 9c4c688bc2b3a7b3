package health

import (
	"cmp"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// The health of nodes is judged by the attempts of the last window, which moves in steps.
const (
	windowStep  = 5 * time.Second
	windowSteps = 6
)

const (
	// maxUnhealthy bounds the nodes of which an instance publishes the attempts: those with most failures, and as many on probation.
	maxUnhealthy = 200
	// maxNodeDirections bounds the directions in which the attempts of one node are counted; the others are counted as one.
	maxNodeDirections = 8
)

// attempts counts the attempts that ended.
type attempts struct {
	Ended  int `json:"ended"`
	Failed int `json:"failed,omitempty"` // of these, the ones whose node failed, did not acknowledge, or did not end in time
}

func (a *attempts) add(b attempts) {
	a.Ended += b.Ended
	a.Failed += b.Failed
}

// share is the share of attempts that failed.
func (a attempts) share() float64 {
	if a.Ended <= 0 {
		return 0
	}
	return float64(a.Failed) / float64(a.Ended)
}

// nodeHealth is what one instance has seen of a node.
type nodeHealth struct {
	steps    [windowSteps]map[string]attempts // by direction
	missed   int                              // attempts in a row that were not acknowledged
	overdue  int                              // attempts in a row that were acknowledged and did not end in time
	lastStep int64
	lastFail int64 // the step of its last failure
}

// Tracker counts the attempts of nodes and directions in a window. It is used by one goroutine.
type Tracker struct {
	began      time.Time // when the first step began
	step       int64     // the current one
	nodes      map[core.NodeID]*nodeHealth
	failing    map[core.NodeID]*nodeHealth // those of the nodes with failures in the window
	directions [windowSteps]map[string]attempts
}

// NewTracker makes a tracker.
func NewTracker() *Tracker {
	return &Tracker{nodes: make(map[core.NodeID]*nodeHealth), failing: make(map[core.NodeID]*nodeHealth)}
}

// Advance moves the window to a time. Steps that it leaves are forgotten, and nodes without attempts in it. Steps are counted from the
// first call, by the monotonic clock: if the wall clock is set back, the window moves on.
func (t *Tracker) Advance(now time.Time) {
	if t.began.IsZero() {
		t.began = now
	}
	step := int64(now.Sub(t.began) / windowStep)
	for first := max(t.step+1, step-windowSteps+1); first <= step; first++ {
		slot := first % windowSteps
		t.directions[slot] = nil
		for id, n := range t.nodes {
			n.steps[slot] = nil
			if step-n.lastStep >= windowSteps {
				delete(t.nodes, id)
			}
			if step-n.lastFail >= windowSteps {
				delete(t.failing, id)
			}
		}
	}
	t.step = max(t.step, step)
}

// node returns what is known of a node.
func (t *Tracker) node(id core.NodeID) *nodeHealth {
	n := t.nodes[id]
	if n == nil {
		n = new(nodeHealth)
		t.nodes[id] = n
	}
	n.lastStep = t.step
	return n
}

// Acknowledged counts a job that a node has acknowledged.
func (t *Tracker) Acknowledged(id core.NodeID) {
	t.node(id).missed = 0
}

// Ended counts an attempt that ended, for a reason or with a result.
func (t *Tracker) Ended(id core.NodeID, d core.Direction, reason core.Reason) {
	failed := reason.CountsAsFailure()
	if reason != core.ReasonNone && !failed {
		return
	}
	n, slot, a := t.node(id), t.step%windowSteps, attempts{Ended: 1}
	switch reason {
	case core.ReasonNone:
		n.missed, n.overdue = 0, 0
	case core.ReasonACKTimeout, core.ReasonDeliveryUnknown:
		n.missed++
	case core.ReasonAttemptTimeout:
		n.overdue++
	}
	if failed {
		a.Failed, n.lastFail, t.failing[id] = 1, t.step, n
	}
	n.steps[slot] = addAttempt(n.steps[slot], d.String(), a, maxNodeDirections)
	t.directions[slot] = addAttempt(t.directions[slot], d.String(), a, MaxNames)
}

// addAttempt counts an attempt under a name, or as other if there are too many names.
func addAttempt(m map[string]attempts, name string, a attempts, limit int) map[string]attempts {
	if m == nil {
		m = make(map[string]attempts)
	}
	if _, known := m[name]; !known && len(m) >= limit {
		name = Other
	}
	sum := m[name]
	sum.add(a)
	m[name] = sum
	return m
}

// observedNode is what instances have seen of a node in the window.
type observedNode struct {
	attempts
	Directions map[string]attempts `json:"directions,omitempty"`
	Missed     int                 `json:"missed,omitempty"`  // in a row
	Overdue    int                 `json:"overdue,omitempty"` // in a row
}

// Report is what instances have seen of nodes in the window: of those with failures or on probation, and in sum of each direction.
type Report struct {
	Nodes      map[core.NodeID]observedNode `json:"nodes,omitempty"`
	Directions map[string]attempts          `json:"directions,omitempty"`
}

// Observed returns what the tracker has seen in the window.
func (t *Tracker) Observed() Report {
	h := Report{Nodes: make(map[core.NodeID]observedNode), Directions: make(map[string]attempts)}
	for _, step := range t.directions {
		for name, a := range step {
			h.Directions = addAttempt(h.Directions, name, a, MaxNames)
		}
	}
	for id, n := range t.failing {
		h.Nodes[id] = n.observed()
	}
	h.KeepWorst(maxUnhealthy)
	return h
}

// ObservedWith is Observed, with the nodes on probation: whether they get more slots depends on their successes.
func (t *Tracker) ObservedWith(onProbation func(core.NodeID) bool) Report {
	h := t.Observed()
	for id, n := range t.nodes {
		if _, listed := h.Nodes[id]; !listed && onProbation(id) && len(h.Nodes) < 2*maxUnhealthy {
			h.Nodes[id] = n.observed()
		}
	}
	return h
}

// Observed returns what was seen of the node in the window.
func (n *nodeHealth) observed() observedNode {
	o := observedNode{Missed: n.missed, Overdue: n.overdue}
	for _, step := range n.steps {
		for name, a := range step {
			o.add(a)
			o.Directions = addAttempt(o.Directions, name, a, maxNodeDirections)
		}
	}
	return o
}

// KeepWorst keeps the nodes with most failures.
func (h *Report) KeepWorst(limit int) {
	if len(h.Nodes) <= limit {
		return
	}
	ids := make([]core.NodeID, 0, len(h.Nodes))
	for id := range h.Nodes {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b core.NodeID) int {
		return cmp.Or(cmp.Compare(h.Nodes[b].Failed, h.Nodes[a].Failed), cmp.Compare(a, b))
	})
	for _, id := range ids[limit:] {
		delete(h.Nodes, id)
	}
}

// Merge adds what another instance has seen. Attempts in a row are those that one instance saw in a row: of a node with a connection, one
// instance sees whether it acknowledges. If no instance saw the node end a job, the overdue ones are those of all.
func (h *Report) Merge(b Report) {
	for name, a := range b.Directions {
		h.Directions = addAttempt(h.Directions, name, a, MaxNames)
	}
	for id, n := range b.Nodes {
		o := h.Nodes[id]
		o.Missed = max(o.Missed, n.Missed)
		if o.Ended == o.Failed && n.Ended == n.Failed {
			o.Overdue += n.Overdue
		} else {
			o.Overdue = max(o.Overdue, n.Overdue)
		}
		o.add(n.attempts)
		for name, a := range n.Directions {
			o.Directions = addAttempt(o.Directions, name, a, maxNodeDirections)
		}
		if h.Nodes == nil {
			h.Nodes = make(map[core.NodeID]observedNode)
		}
		h.Nodes[id] = o
	}
}

// When a node is an outlier.
const (
	outlierAttempts = 10   // with fewer attempts in the window its share says nothing
	outlierFactor   = 3.0  // multiple of the share of failures in its directions that a node exceeds …
	outlierMargin   = 0.20 // … and by which its share is higher
	outlierMissed   = 3    // or the number of attempts in a row that were not acknowledged
	outlierOverdue  = 2    // or the number in a row that were acknowledged and did not end in time
)

// Outlier returns why a node is an outlier; empty if it is not. Its share of failures is compared with that of the other nodes in the
// directions of its attempts, weighted by how many of its attempts were in each.
func (h *Report) Outlier(id core.NodeID) core.AdmissionReason {
	n := h.Nodes[id]
	switch {
	case n.Missed >= outlierMissed:
		return core.AdmissionACKTimeouts
	case n.Overdue >= outlierOverdue:
		return core.AdmissionSilent
	case n.Ended < outlierAttempts:
		return ""
	}
	others := 0.0
	for name, own := range n.Directions {
		all := h.Directions[name]
		rest := attempts{Ended: all.Ended - own.Ended, Failed: all.Failed - own.Failed}
		others += rest.share() * float64(own.Ended) / float64(n.Ended)
	}
	if share := n.share(); share >= outlierFactor*others && share >= others+outlierMargin {
		return core.AdmissionFailing
	}
	return ""
}
