package stats

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestProbationIsSeen: a node on probation gets more slots soon after its first success, although it does not fail. Attempts that began before
// it was ejected do not count.
func TestProbationIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, nodes := newStore(), fleet.New(24*time.Hour)
		for _, id := range []core.NodeID{"a", "b", "c", "d", "e"} {
			node := core.Node{
				ID: id, Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 8, Callback: "http://127.0.0.1:9/",
					Capability: core.Capability{Semantic: []core.Lang{"en", "zh"}, AnyPair: true}},
			}
			r, err := st.Register(t.Context(), store.RegisterParams{Node: node})
			if err != nil {
				t.Fatal(err)
			}
			nodes.Update(r.NodeStatus)
		}
		judge := health.Ejector{
			Store: st, Fleet: nodes, Log: discardLog,
			Counted: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "decisions"}, []string{"decision", "reason"}),
		}
		c := NewCounter("i-1", st, 5*time.Second, discardLog)
		c.node = func(id core.NodeID) *core.Node { return nodes.Node(id).Declared() }
		slots := func() int { return nodes.Node("a").Summary().Slots() }
		step := func() {
			time.Sleep(5 * time.Second)
			c.collect()
			judge.Judge(t.Context(), 1, c.tracker.ObservedWith(c.onProbation), []core.Direction{enZH})
		}
		for range 2 {
			c.AttemptEnded("a", enZH, core.ReasonAttemptTimeout)
		}
		step()
		if slots() != 0 {
			t.Fatal("a node with two overdue jobs in a row was not ejected")
		}
		for range 4 { // its other jobs time out
			c.AttemptEnded("a", enZH, core.ReasonAttemptTimeout)
			step()
		}
		for slots() == 0 {
			step()
		}
		step()
		if a := nodes.Node("a").Declared().Admission; a.Times != 1 || slots() != 1 {
			t.Fatalf("without a job on probation: %+v", a)
		}
		c.AttemptEnded("a", enZH, core.ReasonNone)
		step()
		if slots() != 4 {
			t.Errorf("after a success it has %d slots", slots())
		}
		step()
		if slots() != 8 {
			t.Errorf("after another step it has %d slots", slots())
		}
	})
}

// TestLostInstanceIsNoFailureOfItsNodes: jobs that could not be sent to a node with a WebSocket, because its instance is gone, do not count
// against the node. Those that the callback of an HTTP node refuses do.
func TestLostInstanceIsNoFailureOfItsNodes(t *testing.T) {
	t.Parallel()
	c := NewCounter("i-1", newStore(), 5*time.Second, discardLog)
	nodes := map[core.NodeID]*core.Node{"socket": {ID: "socket"}, "http": {ID: "http", Declaration: core.Declaration{Callback: "http://127.0.0.1:9/"}}}
	c.node = func(id core.NodeID) *core.Node { return nodes[id] }
	for range 20 {
		for _, id := range []core.NodeID{"socket", "http", "gone"} {
			c.AttemptEnded(id, enZH, core.ReasonDeliveryRefused)
		}
	}
	c.AttemptEnded("socket", enZH, core.ReasonNodeFailed)
	c.collect()
	seen := c.tracker.Observed()
	if s, h := seen.Nodes["socket"], seen.Nodes["http"]; s.Failed != 1 || h.Failed != 20 || seen.Outlier("socket") != "" {
		t.Errorf("failures of the node with a socket: %+v, of the HTTP node: %+v", s, h)
	}
}
