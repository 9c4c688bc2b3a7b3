package nodes_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// heartbeat sends a heartbeat and fails the test if it is refused.
func (h *harness) heartbeat(b nodes.Heartbeat) []store.ActiveJob {
	h.t.Helper()
	beat, err := h.registry.Heartbeat(h.t.Context(), b)
	if err != nil {
		h.t.Fatalf("heartbeat of %s: %v", b.Node, err)
	}
	return beat.Cancel
}

func TestHeartbeatChangesTheDeclaration(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		before := h.add("a", 2, func(p *core.Change) {
			p.Services = []core.Service{{ID: "asr-1", Version: "1", Type: "asr", Status: core.ServiceReady}}
		})
		h.heartbeat(nodes.Heartbeat{Node: "a"})
		if now := h.stored("a").Node; now.Revision != before.Revision || !now.SameDeclaration(before) {
			t.Errorf("a heartbeat without a change changed %+v to %+v", before, now)
		}
		region, slots := "eu", 5
		h.heartbeat(nodes.Heartbeat{Node: "a", Change: core.Change{
			Declaration: core.Declaration{Region: region, MaxJobs: slots, Capability: core.Capability{Semantic: core.LangSet{"zh", "en", "de"}}}, Load: &core.Load{CPU: 0.5, GPU: -1, Memory: -1},
			States: map[string]core.ServiceStatus{"asr-1": core.ServiceError, "unknown": core.ServiceReady},
		}})
		want := *before
		want.Region, want.MaxJobs, want.Semantic = region, slots, core.NewLangSet("de", "en", "zh")
		want.Services = []core.Service{{ID: "asr-1", Version: "1", Type: "asr", Status: core.ServiceError}}
		stored := h.stored("a")
		if !stored.Node.SameDeclaration(&want) || stored.Node.Revision <= before.Revision {
			t.Errorf("declaration (-want +got):\n%s", cmp.Diff(&want, stored.Node))
		}
		if stored.Load.CPU != 0.5 {
			t.Errorf("load %+v", stored.Load)
		}
		if n := h.fleet.Node("a"); !n.Declared().SameDeclaration(&want) {
			t.Errorf("in the fleet (-want +got):\n%s", cmp.Diff(&want, n.Declared()))
		}
	})
}

// Another instance has changed the node since this one read it: the change is applied to the newer declaration.
func TestHeartbeatPatchOnAStaleFleet(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		before := h.add("a", 2)
		changed := *before
		changed.Zone = "z1"
		if _, err := h.mem.Heartbeat(t.Context(),
			store.HeartbeatParams{Node: "a", Known: before, Declared: &changed, Load: core.UnknownLoad}); err != nil {
			t.Fatal(err)
		}
		region := "eu"
		h.heartbeat(nodes.Heartbeat{Node: "a", Seq: 1, Change: core.Change{Declaration: core.Declaration{Region: region}}})
		if now := h.stored("a").Node; now.Region != "eu" || now.Zone != "z1" {
			t.Errorf("region %q, zone %q; want both changes", now.Region, now.Zone)
		}
	})
}

func TestHeartbeatOfAnEarlierEpochIsRefused(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		first := h.add("a", 2)
		second := h.add("a", 2)
		region := "eu"
		_, err := h.registry.Heartbeat(t.Context(), nodes.Heartbeat{Node: "a", Epoch: first.Epoch, Change: core.Change{Declaration: core.Declaration{Region: region}}})
		wantCode(t, err, wire.StaleEpoch)
		if now := h.stored("a").Node; now.Region != "" {
			t.Error("a refused heartbeat changed the node")
		}
		h.heartbeat(nodes.Heartbeat{Node: "a", Epoch: second.Epoch})
	})
}

// A heartbeat that was overtaken by a later one is accepted and changes nothing.
func TestOvertakenHeartbeatChangesNothing(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.add("a", 2)
		h.heartbeat(nodes.Heartbeat{Node: "a", Seq: 10})
		region := "eu"
		if stop := h.heartbeat(nodes.Heartbeat{Node: "a", Seq: 9, Change: core.Change{Declaration: core.Declaration{Region: region}}}); stop != nil {
			t.Errorf("stop %v", stop)
		}
		if now := h.stored("a").Node; now.Region != "" {
			t.Error("an overtaken heartbeat changed the node")
		}
	})
}

// Only a full heartbeat of an HTTP node registers an unknown node.
func TestHeartbeatOfAnUnknownNode(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		_, err := h.registry.Heartbeat(t.Context(), nodes.Heartbeat{Node: "a", Change: core.Change{Declaration: core.Declaration{Health: core.HealthReady}}})
		wantCode(t, err, wire.NotFound)
		_, err = h.registry.Heartbeat(t.Context(), nodes.Heartbeat{Node: "a", Change: changeOf(1), Caller: nodes.Caller{Connection: 1}})
		wantCode(t, err, wire.NotFound)
		h.heartbeat(nodes.Heartbeat{Node: "a", Change: changeOf(3)})
		if s := h.stored("a"); s.Node.MaxJobs != 3 || h.fleet.Node("a") == nil {
			t.Errorf("registered %+v", s.Node)
		}
	})
}

// A job that a node does not list for the second time is moved, one that it lists without a lease is resolved, and one past
// its attempt deadline is moved too.
func TestHeartbeatPassesJobsOn(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.add("a", 4)
		h.reserve("a", "listed", "unlisted")
		h.jobs.stop = []store.ActiveJob{{Job: "stray", Attempt: 1}}
		activity := store.Activity{Lists: true, Active: []store.ActiveJob{{Job: "listed", Attempt: 1}, {Job: "stray", Attempt: 1}}}
		var stop []store.ActiveJob
		for range 3 {
			time.Sleep(5 * time.Second)
			stop = append(stop, h.heartbeat(nodes.Heartbeat{Node: "a", Activity: activity})...)
		}
		if len(h.jobs.orphans) == 0 || h.jobs.orphans[0] != "unlisted" {
			t.Errorf("moved %v, want the unlisted job", h.jobs.orphans)
		}
		if len(h.jobs.strays) == 0 || h.jobs.strays[0] != "stray" || len(stop) == 0 || stop[0] != h.jobs.stop[0] {
			t.Errorf("resolved %v, stopped %v; want the stray", h.jobs.strays, stop)
		}
		for range 4 {
			time.Sleep(5 * time.Second)
			h.heartbeat(nodes.Heartbeat{Node: "a", Activity: activity})
		}
		if len(h.jobs.late) == 0 || h.jobs.late[0] != "listed" {
			t.Errorf("overdue %v, want the listed job", h.jobs.late)
		}
	})
}

// A heartbeat over a connection, or of a node that has a callback URL now, shows that the node is not disconnected.
func TestHeartbeatConnectsADisconnectedNode(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		node := h.addConnected("a", 1, "i-1", 1)
		if err := h.registry.Disconnected(t.Context(), "a", node.Epoch, 1); err != nil {
			t.Fatal(err)
		}
		h.heartbeat(nodes.Heartbeat{Node: "a"})
		if !h.stored("a").Node.Disconnected {
			t.Error("a heartbeat without a connection connected the node")
		}
		h.heartbeat(nodes.Heartbeat{Node: "a", Caller: nodes.Caller{Connection: 2}})
		if h.stored("a").Node.Disconnected || h.fleet.Node("a").Declared().Disconnected {
			t.Error("the node is disconnected after a heartbeat over a connection")
		}
		if err := h.registry.Disconnected(t.Context(), "a", node.Epoch, 2); err != nil {
			t.Fatal(err)
		}
		url := "http://127.0.0.1:9/"
		h.heartbeat(nodes.Heartbeat{Node: "a", Change: core.Change{Declaration: core.Declaration{Callback: url}}})
		if h.stored("a").Node.Disconnected {
			t.Error("the node is disconnected although it has a callback URL")
		}
	})
}

// A heartbeat with free slots wakes waiting requests, one without does not.
func TestHeartbeatNotifiesFreeSlots(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.add("a", 1)
		h.jobs.notified = nil
		h.heartbeat(nodes.Heartbeat{Node: "a", Activity: store.Activity{Counts: true, Current: 1}})
		if len(h.jobs.notified) != 0 {
			t.Error("a full node was reported as free")
		}
		h.heartbeat(nodes.Heartbeat{Node: "a", Activity: store.Activity{Counts: true}})
		if diff := cmp.Diff([]core.NodeID{"a"}, h.jobs.notified); diff != "" {
			t.Errorf("nodes with free slots (-want +got):\n%s", diff)
		}
	})
}
