package stats

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

const (
	// failureStep is the precision of the time of failures, and failureSteps how many steps are kept: those of an hour.
	failureStep  = 5 * time.Minute
	failureSteps = int64(time.Hour / failureStep)
)

// nodeFailures counts the failures of a node by reason, in steps.
type nodeFailures struct {
	last  int64 // the newest step
	steps [failureSteps]map[core.Reason]int
}

// failureLog counts the failures of nodes by reason. The zero value is empty. Only nodes with failures in the last hour take memory.
type failureLog struct {
	began time.Time // when the first step began
	step  int64     // the newest
	nodes map[core.NodeID]*nodeFailures
}

// advance returns the step of a time, by the monotonic clock, and forgets nodes without failures since the oldest one that is kept.
func (l *failureLog) advance(now time.Time) int64 {
	if l.began.IsZero() {
		l.began, l.nodes = now, make(map[core.NodeID]*nodeFailures)
	}
	if step := int64(now.Sub(l.began) / failureStep); step > l.step {
		l.step = step
		for id, n := range l.nodes {
			if step-n.last >= failureSteps {
				delete(l.nodes, id)
			}
		}
	}
	return l.step
}

// add counts a failure.
func (l *failureLog) add(id core.NodeID, reason core.Reason, now time.Time) {
	step := l.advance(now)
	n := l.nodes[id]
	if n == nil {
		if len(l.nodes) >= maxSeriesNodes {
			return
		}
		n = &nodeFailures{last: step}
		l.nodes[id] = n
	}
	n.moveTo(step)
	counts := &n.steps[step%failureSteps]
	if *counts == nil {
		*counts = make(map[core.Reason]int)
	}
	(*counts)[reason]++
}

// moveTo makes a step the newest, and forgets what is older than an hour then.
func (n *nodeFailures) moveTo(step int64) {
	for next := max(n.last+1, step-failureSteps+1); next <= step; next++ {
		n.steps[next%failureSteps] = nil
	}
	n.last = step
}

// of returns the failures of a node in the last hour, by reason; nil: there are none.
func (l *failureLog) of(id core.NodeID, now time.Time) map[string]int {
	step := l.advance(now)
	n := l.nodes[id]
	if n == nil {
		return nil
	}
	var sum map[string]int
	for kept := max(0, step-failureSteps+1); kept <= n.last; kept++ {
		for reason, count := range n.steps[kept%failureSteps] {
			if sum == nil {
				sum = make(map[string]int)
			}
			sum[string(reason)] += count
		}
	}
	return sum
}

// addFailure counts an attempt that ended without a result, unless that was not because of its node.
func (s *NodeSeries) addFailure(id core.NodeID, reason core.Reason) {
	switch reason {
	case core.ReasonNone, core.ReasonCancelled, core.ReasonAudioLost:
		return
	}
	if reason.CountsAsFailure() {
		s.add(id, false, 0)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures.add(id, reason, time.Now())
}

// Failures returns how many attempts of a node ended without a result in the last hour, by reason, as far as this instance decided their
// end; nil: none.
func (s *NodeSeries) Failures(id core.NodeID) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failures.of(id, time.Now())
}
