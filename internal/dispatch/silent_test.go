package dispatch_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
)

// TestOnlyWhoMovesJobsSaysSo: that a node is gone is not a word of the node; and the log of an instance that finds nothing to move does not say that it moved jobs, whether
// another has moved them or the node had left in good order.
func TestOnlyWhoMovesJobsSaysSo(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.deafen() // this test says when somebody is found silent
		var log bytes.Buffer
		instance := func(id core.InstanceID) *nodes.Registry {
			return nodes.New(nodes.Config{Instance: id, Presence: timing.Presence}, w.store, w.fleet, w.d, w.m, slog.New(slog.NewTextHandler(&log, nil)))
		}
		first, second := instance("i-1"), instance("i-2")
		w.node("node-a", 1)
		time.Sleep(timing.Presence / 2) // so that it is silent long before its job's time is up
		if err := w.ack(w.dispatch()); err != nil {
			t.Fatal(err)
		}
		w.node("left", 1)
		time.Sleep(time.Second)
		if err := first.NodeLost(t.Context(), "left", w.fleet.Node("left").Declared().Epoch); err != nil {
			t.Fatal(err)
		}
		if left, err := w.mem.Node(t.Context(), "left"); err != nil || left.Age != time.Second || left.Node.Health != core.HealthOffline {
			t.Errorf("it was not heard when it was found to be gone: %+v, %v", left, err)
		}
		w.node("node-b", 1)
		time.Sleep(timing.Presence/2 + time.Second)
		w.node("node-b", 1)
		log.Reset()
		said := func(l *nodes.Registry, id core.NodeID, want int) {
			t.Helper()
			if unhandled := l.MoveJobsOfSilent(t.Context(), []core.NodeID{id}); len(unhandled) > 0 {
				t.Fatal(unhandled)
			}
			synctest.Wait()
			if n := strings.Count(log.String(), "node is silent; its jobs are moved"); n != want {
				t.Errorf("said %d times, want %d:\n%s", n, want, log.String())
			}
		}
		said(first, "node-a", 1)
		if !strings.Contains(log.String(), "jobs=1") {
			t.Errorf("it does not say how many:\n%s", log.String())
		}
		said(second, "node-a", 1)
		time.Sleep(timing.Presence)
		said(first, "left", 1)
		said(second, "left", 1)
	})
}
