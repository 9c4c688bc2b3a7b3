package nodes_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestRegisterMakesAnIDAndAnEpoch(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		first := h.add("", 2)
		if !strings.HasPrefix(string(first.ID), "node-") || first.Epoch == 0 {
			t.Errorf("registered %s in epoch %d", first.ID, first.Epoch)
		}
		again := h.add(first.ID, 3)
		if again.Epoch <= first.Epoch || again.MaxJobs != 3 {
			t.Errorf("epoch %d after %d, %d slots", again.Epoch, first.Epoch, again.MaxJobs)
		}
		if n := h.fleet.Node(first.ID); n == nil || n.Declared().Epoch != again.Epoch {
			t.Error("the fleet does not have the last registration")
		}
		for status, want := range map[string]float64{"new": 1, "again": 1, "error": 0} {
			if got := testutil.ToFloat64(h.metrics.NodeRegistration.WithLabelValues(status)); got != want {
				t.Errorf("%v registrations with status %s, want %v", got, status, want)
			}
		}
		if other := h.add("", 1); other.ID == first.ID {
			t.Error("two nodes got the same id")
		}
	})
}

// Jobs that a node lists are rebound to the new epoch, those that it does not list are moved, and those without a lease are
// resolved. The node stops what either says.
func TestRegisterPassesJobsOn(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.add("a", 4)
		h.reserve("a", "kept", "unlisted")
		time.Sleep(6 * time.Second) // older than ReservedTTL: a lease is not young any more
		h.jobs.notified = nil
		h.jobs.stop = []store.ActiveJob{{Job: "stray", Attempt: 2}, {Job: "kept", Attempt: 1}}
		listed := []store.ActiveJob{{Job: "kept", Attempt: 1}, {Job: "stray", Attempt: 2}}
		r, err := h.registry.Register(t.Context(), "a", changeOf(4), nodes.Caller{}, store.Activity{Lists: true, Active: listed})
		if err != nil {
			t.Fatal(err)
		}
		got := [][]core.JobID{h.jobs.rebound, h.jobs.orphans, h.jobs.strays}
		if diff := cmp.Diff([][]core.JobID{{"kept"}, {"unlisted"}, {"stray"}}, got); diff != "" {
			t.Errorf("rebound, moved and resolved jobs (-want +got):\n%s", diff)
		}
		if h.jobs.epoch != r.Node.Epoch {
			t.Errorf("jobs were rebound to epoch %d, want %d", h.jobs.epoch, r.Node.Epoch)
		}
		if diff := cmp.Diff([]store.ActiveJob{{Job: "kept", Attempt: 1}, {Job: "stray", Attempt: 2}}, r.Cancel); diff != "" {
			t.Errorf("jobs to stop (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]core.NodeID{"a"}, h.jobs.notified); diff != "" {
			t.Errorf("nodes with free slots (-want +got):\n%s", diff)
		}
	})
}

func TestRegisterFailsIfJobsCannotBeRebound(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.jobs.rebindErr = errors.New("the store is down")
		if _, err := h.registry.Register(t.Context(), "a", changeOf(1), nodes.Caller{}, store.Activity{}); !errors.Is(err, h.jobs.rebindErr) {
			t.Errorf("error %v, want that of RebindJobs", err)
		}
	})
}

// A full node does not wake waiting requests.
func TestRegisterOfFullNodeNotifiesNoFreeSlots(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.add("a", 0)
		if len(h.jobs.notified) != 0 {
			t.Errorf("notified %v", h.jobs.notified)
		}
	})
}

func TestRegisterCountsNodesTakenOver(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		count := func(want int64) {
			t.Helper()
			if got := h.metrics.Takeovers.WithLabelValues("node").Load(); got != want {
				t.Errorf("%v takeovers, want %v", got, want)
			}
		}
		h.addConnected("a", 1, "i-1", 1)
		h.addConnected("a", 1, "i-1", 2)
		count(0)
		node := h.addConnected("a", 1, "i-2", 3)
		count(1)
		if err := h.registry.MarkLost(t.Context(), "a", node.Epoch); err != nil {
			t.Fatal(err)
		}
		h.addConnected("a", 1, "i-1", 4) // it was offline
		count(1)
	})
}

func TestRestoreNodeRegistersTheWholeDeclaration(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		declared := *h.addConnected("a", 3, "i-1", 1, func(p *core.Change) { p.Models = []string{"m"} })
		if _, err := h.mem.Remove(t.Context(), store.RemoveParams{Node: "a"}); err != nil {
			t.Fatal(err)
		}
		r, err := h.registry.RestoreNode(t.Context(), declared, "the-secret-of-the-node", 1, store.Activity{Lists: true})
		if err != nil {
			t.Fatal(err)
		}
		if !r.Node.SameDeclaration(&declared) || h.stored("a").Node.Epoch != r.Node.Epoch {
			t.Errorf("restored %+v, want %+v", r.Node, declared)
		}
	})
}

// wantStoreDown checks that an operation fails as retryable while the store is down, and counts the error.
func (h *harness) wantStoreDown(operation string, fn func() error) {
	h.t.Helper()
	before := testutil.ToFloat64(h.metrics.StoreErrors.WithLabelValues(operation))
	h.store.down.Store(true)
	err := fn()
	h.store.down.Store(false)
	wantCode(h.t, err, wire.SchedulerDependencyDown)
	if got := testutil.ToFloat64(h.metrics.StoreErrors.WithLabelValues(operation)); got != before+1 {
		h.t.Errorf("%v store errors of %s, want %v", got, operation, before+1)
	}
}

func TestStoreErrorsAreRetryable(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		node := h.add("a", 1)
		h.wantStoreDown("register", func() error {
			_, err := h.registry.Register(ctx, "b", changeOf(1), nodes.Caller{}, store.Activity{})
			return err
		})
		for _, id := range []core.NodeID{"a", "b"} { // known to the fleet and not
			h.wantStoreDown("heartbeat", func() error {
				_, err := h.registry.Heartbeat(ctx, nodes.Heartbeat{Node: id})
				return err
			})
		}
		h.wantStoreDown("connect", func() error { return h.registry.Disconnected(ctx, "a", node.Epoch, 1) })
		h.wantStoreDown("offline", func() error { return h.registry.MarkLost(ctx, "a", node.Epoch) })
		h.wantStoreDown("drain", func() error {
			_, err := h.registry.Drain(ctx, "a", true)
			return err
		})
		h.wantStoreDown("node", func() error {
			_, err := h.registry.Node(ctx, "a")
			return err
		})
		h.wantStoreDown("nodes", func() error {
			_, _, err := h.registry.ListNodes(ctx, nodes.Filter{}, "", 10)
			return err
		})
		h.wantStoreDown("directions", func() error {
			_, _, err := h.registry.ListDirections(ctx, nodes.DirectionFilter{}, core.Direction{}, 10)
			return err
		})
		h.wantStoreDown("heartbeat", func() error {
			return h.registry.ReportUnavailable(ctx, core.UnavailableReport{UnavailableService: core.UnavailableService{Node: "not-in-view", Service: "asr"}})
		})
		if got := h.stored("a").Node; !got.SameDeclaration(node) {
			t.Errorf("the node changed while the store was down: %+v", got)
		}
	})
}

func TestDrainAndResume(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.add("a", 1)
		for _, drained := range []bool{true, true, false} {
			s, err := h.registry.Drain(t.Context(), "a", drained)
			if err != nil || s.Node.Drained != drained {
				t.Fatalf("drain %v: %+v, %v", drained, s.Node, err)
			}
			if now := h.fleet.Node("a").Declared(); now.Drained != drained || now.AcceptsJobs() == drained {
				t.Errorf("in the fleet drained %v, grantable %v, want drained %v", now.Drained, now.AcceptsJobs(), drained)
			}
		}
		if _, err := h.registry.Drain(t.Context(), "a", true); err != nil {
			t.Fatal(err)
		}
		if node := h.add("a", 1); !node.Drained {
			t.Error("a registration ended the drain")
		}
		_, err := h.registry.Drain(t.Context(), "unknown", true)
		wantCode(t, err, wire.NotFound)
	})
}

// TestUnprovenHeartbeatOnlyRegisters: the heartbeat of a caller that was not shown to be the node, which may have registered since, does
// not change the node.
func TestUnprovenHeartbeatOnlyRegisters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(timing)
		cfg := nodes.Config{Instance: "i-1", Presence: timing.Presence, RequireSecret: true}
		registry := nodes.New(cfg, &failingStore{Store: mem}, fleet.New(timing.Presence), new(fakeJobs).parts(), telemetry.New(),
			slog.New(slog.DiscardHandler))
		first, err := registry.Register(t.Context(), "a", changeOf(2), nodes.Caller{}, store.Activity{})
		if err != nil {
			t.Fatal(err)
		}
		evil := "http://127.0.0.1:666/"
		for name, p := range map[string]core.Change{"partial": {Declaration: core.Declaration{Callback: evil}},
			"full": changeOf(0, func(p *core.Change) { p.Callback = evil })} {
			_, err := registry.Heartbeat(t.Context(), nodes.Heartbeat{Node: "a", Change: p, Registers: true})
			var e *wire.Error
			if !errors.As(err, &e) || e.Code != wire.NotFound && e.Code != wire.NameInUse {
				t.Errorf("a %s heartbeat: %v", name, err)
			}
		}
		now, err := store.ReadNode(t.Context(), mem, "a")
		if err != nil || now.Node.Callback == evil || now.Node.Epoch != first.Node.Epoch || now.Node.MaxJobs != 2 {
			t.Errorf("the node is %+v, %v", now.Node, err)
		}
		// The store has lost the node, and the fleet still knows whose name it is.
		if removed, err := mem.Remove(t.Context(), store.RemoveParams{Node: "a", Epoch: first.Node.Epoch}); err != nil || !removed {
			t.Fatal(removed, err)
		}
		if _, err := registry.Register(t.Context(), "a", changeOf(2), nodes.Caller{}, store.Activity{}); !isCode(err, wire.NameInUse) {
			t.Errorf("a registration without its secret: %v", err)
		}
		if _, err := registry.Register(t.Context(), "a", changeOf(2), nodes.Caller{Secret: first.Secret},
			store.Activity{}); err != nil {
			t.Errorf("a registration with its secret: %v", err)
		}
	})
}

func isCode(err error, code wire.Code) bool {
	var e *wire.Error
	return errors.As(err, &e) && e.Code == code
}
