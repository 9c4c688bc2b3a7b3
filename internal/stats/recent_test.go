package stats

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
)

func TestRecent(t *testing.T) {
	t.Parallel()
	f := fleet.New(time.Hour)
	f.Update(seriesNode("n1"))
	f.Update(seriesNode("n2"))
	s := NewNodeSeries(f)
	count := func(step int64, done, failed int) {
		for range done {
			s.add("n1", true, time.Second)
		}
		for range failed {
			s.add("n1", false, 0)
		}
		if step >= 0 {
			s.sample(at(step))
		}
	}
	count(0, 3, 1) // a minute before the step 12
	count(1, 2, 1)
	count(12, 5, 2)
	count(-1, 1, 3) // no point yet
	want := map[core.NodeID]RecentCounts{"n1": {Done: 8, Failed: 6}, "n2": {}}
	if diff := cmp.Diff(want, s.Recent(time.Minute)); diff != "" {
		t.Errorf("of a minute (-want +got):\n%s", diff)
	}
	if got := s.Recent(time.Hour)["n1"]; got != (RecentCounts{Done: 11, Failed: 7}) {
		t.Errorf("of an hour: %+v", got)
	}
}

func TestNodeStatesAreThoseOfPoints(t *testing.T) {
	t.Parallel()
	for i, name := range NodeStates() {
		if stateNames[nodeState(i)+stateReady] != name {
			t.Errorf("state %d is %s", i, name)
		}
	}
	if got := NodeStates()[StateOf(seriesNode("n1").Node)]; got != "ready" {
		t.Errorf("a ready node is %s", got)
	}
	if got := NodeStates()[StateOffline]; got != "offline" {
		t.Errorf("an offline node is %s", got)
	}
}
