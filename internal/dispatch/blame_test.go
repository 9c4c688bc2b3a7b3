package dispatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
)

// attemptObserver records the attempts that failed.
type attemptObserver struct {
	refusalObserver
	failed []core.Reason
}

func (o *attemptObserver) AttemptEnded(_ core.NodeID, _ core.Direction, reason core.Reason) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if reason != core.ReasonNone {
		o.failed = append(o.failed, reason)
	}
}

// connectedTo makes a node one that is connected to an instance.
func connectedTo(instance core.InstanceID) func(*core.Change) {
	return func(p *core.Change) { p.Callback, p.Owner = "", instance }
}

// TestMissedACKsAreCountedWhereTheyAreKnown: an attempt that is not acknowledged counts against its node only if this instance has posted
// it to the node's callback URL, and not if the acknowledgement could not be recorded. What is sent over a connection is known there.
func TestMissedACKsAreCountedWhereTheyAreKnown(t *testing.T) {
	t.Parallel()
	posted := func(*core.Change) {}
	for name, c := range map[string]struct {
		node    func(*core.Change)
		unacked bool // the node acknowledges the job, and the store fails
		want    []core.Reason
	}{
		"posted":                         {node: posted, want: []core.Reason{core.ReasonACKTimeout}},
		"posted, the store lost the ACK": {node: posted, unacked: true},
		"sent over a connection to this instance": {node: connectedTo("i-test")},
		"sent over a connection to another one":   {node: connectedTo("i-other")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			observer := new(attemptObserver)
			runWith(t, func(cfg *dispatch.Config) { cfg.Observer = observer }, func(h *harness) {
				h.addNode("node-a", 1, c.node)
				p := h.dispatch()
				if c.unacked {
					h.store.failNext(true, "commit", 1)
					if err := h.ack(p); err == nil {
						t.Fatal("the ACK was recorded")
					}
				}
				h.advance(6*time.Second, "node-a")
				h.wantState(p.Job, core.StateRetrying, core.ReasonACKTimeout)
				if diff := cmp.Diff(c.want, observer.failed); diff != "" {
					t.Errorf("failures that count (-want +got):\n%s", diff)
				}
				if aside := h.fleet.Node("node-a").IsSetAside(h.fleet.Now()); aside != (c.want != nil) {
					t.Errorf("set aside: %v", aside)
				}
			})
		})
	}
}

// TestMissedACKsOfConnections: what connections report counts against the nodes, and sets them aside, unless the store was unavailable.
func TestMissedACKsOfConnections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		acked, done, down bool
		counted           bool
	}{
		"not acknowledged":                            {counted: true},
		"acknowledged over HTTP":                      {acked: true},
		"done over HTTP":                              {acked: true, done: true},
		"not acknowledged, the store was unavailable": {down: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			observer := new(attemptObserver)
			var missed []dispatch.MissedACK
			reported := false
			change := func(cfg *dispatch.Config) {
				cfg.Observer = observer
				cfg.MissedACKs = func(fn func(dispatch.MissedACK)) {
					for _, m := range missed {
						reported = true
						fn(m)
					}
					missed = nil
				}
			}
			runWith(t, change, func(h *harness) {
				h.addNode("node-a", 1, connectedTo("i-test"))
				p := h.dispatch()
				if c.acked {
					h.acknowledge(p)
				}
				if c.done {
					if err := h.done(p); err != nil {
						t.Fatal(err)
					}
				}
				missed = []dispatch.MissedACK{{Job: p.Job, Node: p.Node, Attempt: p.Attempt, Direction: spec().Direction}}
				if c.down {
					h.store.failNext(true, "get", 1)
					if _, err := h.dispatcher.Job(h.t.Context(), "job-of-nobody"); err == nil {
						t.Fatal("the store answered")
					}
				}
				ctx, cancel := context.WithCancel(h.t.Context())
				defer cancel()
				go h.dispatcher.WatchSilent(ctx)
				h.advance(time.Second, "node-a")
				counted := len(observer.failed) == 1 && h.fleet.Node("node-a").IsSetAside(h.fleet.Now())
				if !reported || counted != c.counted {
					t.Errorf("reported %v, counted %v: %v", reported, counted, observer.failed)
				}
			})
		})
	}
}
