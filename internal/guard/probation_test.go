package guard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestTimesAreThoseOfTheStore: how long an ejection has lasted is judged by the clock of the store, however wrong that of this machine is.
func TestTimesAreThoseOfTheStore(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			j := newJudged(t, 8, fiveNodes(), enZH)
			j.judge(seenOf("a", 20, 20))
			n := *j.Fleet.Node("a").Declared()
			n.Version++
			n.Admission.Since, n.Admission.Until = n.Admission.Since.Add(ahead), n.Admission.Until.Add(ahead)
			j.Fleet.Update(store.NodeStatus{Node: &n, At: n.Admission.Since})
			j.Store = notedAdmissions{j.store, &n}
			for range 5 {
				j.judge(Health{})
			}
			if j.slots("a") != 0 {
				t.Errorf("the store is %v ahead: the ejection ended early", ahead)
			}
			for range 4 {
				j.judge(Health{})
			}
			if j.slots("a") != 1 {
				t.Errorf("the store is %v ahead: after 45 s the node has %d slots", ahead, j.slots("a"))
			}
		})
	}
}

// notedAdmissions is a store whose clock is another one: it admits what is decided about one node.
type notedAdmissions struct {
	*faultyStore
	node *core.Node
}

func (s notedAdmissions) Admit(_ context.Context, p store.AdmitParams) (*core.Node, bool, error) {
	next := *s.node
	next.Version++
	next.Admission = p.Admission
	return &next, true, nil
}

// TestProbationIsSeen: a node on probation gets more slots soon after its first success, although it does not fail. Attempts that began before
// it was ejected do not count.
func TestProbationIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudged(t, 8, fiveNodes(), enZH)
		c := NewCounter("i-1", j.store, 5*time.Second, discardLog)
		c.Follow(func(id core.NodeID) *core.Node { return j.Fleet.Node(id).Declared() })
		step := func() {
			c.collect()
			j.judge(c.tracker.observedWith(c.onProbation))
		}
		for range 2 {
			c.AttemptEnded("a", enZH, core.ReasonAttemptTimeout)
		}
		step()
		if j.slots("a") != 0 {
			t.Fatal("a node with two overdue jobs in a row was not ejected")
		}
		for range 4 { // its other jobs time out
			c.AttemptEnded("a", enZH, core.ReasonAttemptTimeout)
			step()
		}
		for j.slots("a") == 0 {
			step()
		}
		step()
		if a := j.Fleet.Node("a").Declared().Admission; a.Times != 1 || j.slots("a") != 1 {
			t.Fatalf("without a job on probation: %+v", a)
		}
		c.AttemptEnded("a", enZH, core.ReasonNone)
		step()
		if j.slots("a") != 4 {
			t.Errorf("after a success it has %d slots", j.slots("a"))
		}
		step()
		if j.slots("a") != 8 {
			t.Errorf("after another step it has %d slots", j.slots("a"))
		}
	})
}

// TestLostInstanceIsNoFailureOfItsNodes: jobs that could not be sent to a node with a WebSocket, because its instance is gone, do not count
// against the node. Those that the callback of an HTTP node refuses do.
func TestLostInstanceIsNoFailureOfItsNodes(t *testing.T) {
	t.Parallel()
	c := NewCounter("i-1", newStore(), 5*time.Second, discardLog)
	nodes := map[core.NodeID]*core.Node{"socket": {ID: "socket"}, "http": {ID: "http", Callback: "http://127.0.0.1:9/"}}
	c.Follow(func(id core.NodeID) *core.Node { return nodes[id] })
	for range 20 {
		for _, id := range []core.NodeID{"socket", "http", "gone"} {
			c.AttemptEnded(id, enZH, core.ReasonDeliveryRefused)
		}
	}
	c.AttemptEnded("socket", enZH, core.ReasonNodeFailed)
	c.collect()
	seen := c.tracker.observed()
	if s, h := seen.Nodes["socket"], seen.Nodes["http"]; s.Failed != 1 || h.Failed != 20 || seen.outlier("socket") != "" {
		t.Errorf("failures of the node with a socket: %+v, of the HTTP node: %+v", s, h)
	}
}
