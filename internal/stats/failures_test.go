package stats

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
)

func TestFailuresOfTheLastHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewNodeSeries(fleet.New(time.Hour))
		want := func(id core.NodeID, want map[string]int) {
			t.Helper()
			if diff := cmp.Diff(want, s.Failures(id)); diff != "" {
				t.Errorf("failures of %s (-want +got):\n%s", id, diff)
			}
		}
		want("n1", nil)
		for _, reason := range []core.Reason{core.ReasonACKTimeout, core.ReasonACKTimeout, core.ReasonNodeBusy, core.ReasonNone, core.ReasonCancelled, core.ReasonAudioLost} {
			s.addFailure("n1", reason)
		}
		s.addFailure("n2", core.ReasonNodeLost)
		want("n1", map[string]int{"ACK_TIMEOUT": 2, "NODE_BUSY": 1})
		time.Sleep(30 * time.Minute)
		s.addFailure("n1", core.ReasonACKTimeout)
		want("n1", map[string]int{"ACK_TIMEOUT": 3, "NODE_BUSY": 1})
		time.Sleep(25 * time.Minute)
		want("n1", map[string]int{"ACK_TIMEOUT": 3, "NODE_BUSY": 1})
		want("n2", map[string]int{"NODE_LOST": 1})
		time.Sleep(5 * time.Minute)
		want("n1", map[string]int{"ACK_TIMEOUT": 1})
		want("n2", nil)
		time.Sleep(30 * time.Minute)
		want("n1", nil)
		if n := len(s.failures.nodes); n != 0 {
			t.Errorf("%d nodes are kept", n)
		}
		s.addFailure("n1", core.ReasonNodeFailed)
		want("n1", map[string]int{"NODE_FAILED": 1})
	})
}

func TestFailuresAreBounded(t *testing.T) {
	t.Parallel()
	s := NewNodeSeries(fleet.New(time.Hour))
	for i := range maxSeriesNodes + 10 {
		s.addFailure(core.NodeID(fmt.Sprint("n", i)), core.ReasonNodeBusy)
	}
	if n := len(s.failures.nodes); n != maxSeriesNodes {
		t.Errorf("%d nodes are kept, want %d", n, maxSeriesNodes)
	}
}
