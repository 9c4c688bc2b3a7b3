package health

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// TestOutliers: what makes a node an outlier, and what does not.
func TestOutliers(t *testing.T) {
	node := func(o observedNode, ended, failed int, all attempts) Report {
		o.attempts, o.Directions = attempts{ended, failed}, map[string]attempts{"en→zh": {ended, failed}}
		return Report{Nodes: map[core.NodeID]observedNode{"n": o}, Directions: map[string]attempts{"en→zh": all}}
	}
	for _, c := range []struct {
		name string
		seen Report
		want core.AdmissionReason
	}{
		{"it fails, the others do not", node(observedNode{}, 10, 3, attempts{110, 3}), core.AdmissionFailing},
		{"too few attempts", node(observedNode{}, 9, 9, attempts{109, 9}), ""},
		{"not 20 points above the others", node(observedNode{}, 100, 19, attempts{1100, 19}), ""},
		{"not three times as often as the others", node(observedNode{}, 10, 8, attempts{110, 48}), ""},
		{"all fail", node(observedNode{}, 100, 100, attempts{1100, 1100}), ""},
		{"it alone has the direction, and fails", node(observedNode{}, 10, 10, attempts{10, 10}), core.AdmissionFailing},
		{"two missed ACKs in a row", node(observedNode{Missed: 2}, 2, 2, attempts{102, 2}), ""},
		{"three missed ACKs in a row", node(observedNode{Missed: 3}, 3, 3, attempts{103, 3}), core.AdmissionACKTimeouts},
		{"one overdue job", node(observedNode{Overdue: 1}, 1, 1, attempts{101, 1}), ""},
		{"two overdue jobs in a row", node(observedNode{Overdue: 2}, 2, 2, attempts{102, 2}), core.AdmissionSilent},
		{"unknown", Report{}, ""},
	} {
		if got := c.seen.Outlier("n"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestTracker: attempts count for the window, those in a row until the node does a job, and only those that say something about the node.
func TestTracker(t *testing.T) {
	tr, now := NewTracker(), time.Unix(1_800_000_000, 0)
	tr.Advance(now)
	for range 3 {
		tr.Ended("a", enZH, core.ReasonACKTimeout)
		tr.Ended("b", enZH, core.ReasonAttemptTimeout)
		tr.Ended("c", enZH, core.ReasonNone)
	}
	for _, r := range []core.Reason{core.ReasonNodeBusy, core.ReasonCancelled, core.ReasonAudioLost, core.ReasonModelNotAvailable, core.ReasonNodeLost, core.ReasonDeadline} {
		tr.Ended("d", enZH, r)
	}
	seen := tr.Observed()
	if a, b := seen.Nodes["a"], seen.Nodes["b"]; a.Missed != 3 || a.Failed != 3 || b.Overdue != 3 || b.Missed != 0 {
		t.Errorf("a %+v, b %+v", a, b)
	}
	if _, known := seen.Nodes["c"]; known || len(seen.Nodes) != 2 || seen.Directions["en→zh"] != (attempts{9, 6}) {
		t.Errorf("seen: %+v", seen)
	}
	tr.Acknowledged("a")
	tr.Ended("b", enZH, core.ReasonNone)
	if seen := tr.Observed(); seen.Nodes["a"].Missed != 0 || seen.Nodes["b"].Overdue != 0 || seen.Nodes["b"].Failed != 3 {
		t.Errorf("after they answered: %+v", seen.Nodes)
	}
	tr.Advance(now.Add(windowStep * (windowSteps - 1)))
	if seen := tr.Observed(); seen.Nodes["a"].Failed != 3 {
		t.Errorf("at the end of the window: %+v", seen.Nodes)
	}
	tr.Advance(now.Add(windowStep * windowSteps))
	if seen := tr.Observed(); len(seen.Nodes) != 0 || len(seen.Directions) != 0 || len(tr.nodes) != 0 {
		t.Errorf("after the window: %+v, %d nodes", seen, len(tr.nodes))
	}
}

// TestTrackerAndTheClock: the window moves by the monotonic clock, so that it moves on when the wall clock is set back. Outside a bubble of
// synctest a time has a reading of it.
func TestTrackerAndTheClock(t *testing.T) {
	t.Parallel()
	tr := NewTracker()
	tr.Advance(time.Now())
	tr.Ended("a", enZH, core.ReasonNodeFailed)
	if !strings.Contains(tr.began.String(), " m=") {
		t.Errorf("the first step began at %v, which has no reading of the monotonic clock", tr.began)
	}
	tr.Advance(tr.began.Add(windowStep * windowSteps))
	if seen := tr.Observed(); tr.step != windowSteps || len(seen.Nodes) != 0 {
		t.Errorf("after the window: step %d, %+v", tr.step, seen)
	}
}

// TestTrackerIsBounded: what an instance publishes of nodes and directions is bounded, whatever their names.
func TestTrackerIsBounded(t *testing.T) {
	tr := NewTracker()
	tr.Advance(time.Unix(1_800_000_000, 0))
	for i := range 5000 {
		d := core.Direction{Src: core.Lang(fmt.Sprint("x", i)), Tgt: "zh"}
		tr.Ended(core.NodeID(fmt.Sprint("n", i)), d, core.ReasonNodeFailed)
		tr.Ended("one", d, core.ReasonNodeFailed)
	}
	seen := tr.Observed()
	if len(seen.Nodes) != maxUnhealthy || len(seen.Directions) > MaxNames+1 || len(seen.Nodes["one"].Directions) > maxNodeDirections+1 || seen.Nodes["one"].Failed != 5000 {
		t.Errorf("%d nodes, %d directions, of one node %d with %d failures", len(seen.Nodes), len(seen.Directions), len(seen.Nodes["one"].Directions), seen.Nodes["one"].Failed)
	}
}

// TestMergeOfInstances: failures of all instances are added up. Missed ACKs in a row are those that one instance saw.
func TestMergeOfInstances(t *testing.T) {
	one := Report{Nodes: map[core.NodeID]observedNode{"n": {attempts: attempts{2, 2}, Missed: 2}}, Directions: map[string]attempts{"en→zh": {10, 2}}}
	var all Report
	all.Merge(one)
	all.Merge(one)
	if n := all.Nodes["n"]; n.Missed != 2 || n.Failed != 4 || all.Directions["en→zh"] != (attempts{20, 4}) {
		t.Errorf("%+v", all)
	}
}

// TestFailuresLeaveTheWindow checks that a node is listed while it has a failure in the window, and not longer.
func TestFailuresLeaveTheWindow(t *testing.T) {
	t.Parallel()
	start := time.Unix(0, 0).Add(1000 * windowStep)
	d := core.Direction{Src: "en", Tgt: "zh"}
	tr := NewTracker()
	for second := range 90 {
		tr.Advance(start.Add(time.Duration(second) * time.Second))
		reason := core.ReasonNone
		if second%60 == 3 {
			reason = core.ReasonNodeFailed
		}
		tr.Ended("n1", d, reason)
		tr.Ended("n2", d, core.ReasonNone)
		// The step of the failure is 0, and the window has windowSteps steps.
		_, listed := tr.Observed().Nodes["n1"]
		if want := second%60 >= 3 && second%60/int(windowStep/time.Second) < windowSteps; listed != want {
			t.Errorf("after %d s the node is listed: %v, want %v", second, listed, want)
		}
		if _, listed := tr.Observed().Nodes["n2"]; listed {
			t.Errorf("after %d s a node without failures is listed", second)
		}
	}
}
