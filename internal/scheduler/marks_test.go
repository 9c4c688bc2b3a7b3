package scheduler_test

import (
	"testing"

	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestMarksAreSharedByInstances: a service that a node reports to one instance is not ready on all, until the node reports to any of
// them that it has become ready, or registers again. The reaction to reports on several instances is one.
func TestMarksAreSharedByInstances(t *testing.T) {
	t.Parallel()
	cfg := fastConfig()
	patient(&cfg)
	cfg.Scheduler.ModelNotAvailable.MarkTTLSeconds, cfg.Scheduler.ModelNotAvailable.DebounceSeconds = 3600, 3600
	instances := startCluster(t, redistest.Start(t).URL(), cfg, nil)
	post := func(in *instance, path string, body, out any) {
		t.Helper()
		retryWhileDown(t, func() error { return in.peer.Post(t.Context(), path, body, out) })
	}
	declaration := func(id, status string) map[string]any {
		return map[string]any{
			"node_id": id, "semantic_langs": []string{"en", "zh"}, "max_concurrent_jobs": 2, "callback_url": "http://127.0.0.1:9/",
			"installed_services": []wire.Service{{ServiceID: "nmt", Version: "3", Type: "nmt", Status: status}},
		}
	}
	state := func(id, status string) map[string]any {
		return map[string]any{"node_id": id, "capability_state": map[string]string{"nmt": status}}
	}
	// reasons returns why each instance would not give a node a job.
	reasons := func(id string) (all [2]string) {
		for i := range all {
			var x wire.ExplainResponse
			post(instances[i], "/v1/dispatch/explain", wire.DispatchRequest{SessionID: "s", SrcLang: "en", TgtLang: "zh"}, &x)
			all[i] = "NOT_SEEN"
			for _, n := range x.Nodes {
				if n.NodeID == id {
					all[i] = n.Reason
				}
			}
		}
		return all
	}
	await := func(what, id, reason string) {
		t.Helper()
		waitUntil(t, what, waitLimit, func() bool { return reasons(id) == [2]string{reason, reason} })
	}
	const notReady = "NMT_SERVICE_NOT_READY"
	// report reports the service, again if Redis did not answer in time, and waits until it is marked on both instances.
	report := func(in *instance, id string) {
		t.Helper()
		sent := -1
		waitUntil(t, "the mark on both instances", waitLimit, func() bool {
			if dropped := int(in.Metrics.NADropped.WithLabelValues(telemetry.NADroppedStore).Load()); dropped > sent {
				sent = dropped
				body := wire.ModelNotAvailableRequest{NodeID: id, ServiceID: "nmt", Version: "3", Reason: "CRASHED"}
				post(in, "/v1/node/model_not_available", body, new(wire.OKResponse))
			}
			return reasons(id) == [2]string{notReady, notReady}
		})
	}
	for _, id := range []string{"n1", "n2"} {
		post(instances[0], "/v1/node/register", declaration(id, "ready"), new(wire.RegisterResponse))
		await("both instances to see the node", id, "")
	}
	report(instances[0], "n1")
	report(instances[1], "n2")

	post(instances[1], "/v1/node/heartbeat", state("n1", "ready"), new(wire.HeartbeatResponse))
	if got := reasons("n1"); got != [2]string{notReady, notReady} {
		t.Errorf("after a heartbeat that repeats the declaration: %q", got)
	}
	post(instances[1], "/v1/node/heartbeat", state("n1", "error"), new(wire.HeartbeatResponse))
	post(instances[1], "/v1/node/heartbeat", state("n1", "ready"), new(wire.HeartbeatResponse))
	await("the end of the mark on both instances", "n1", "")
	if got := reasons("n2"); got != [2]string{notReady, notReady} {
		t.Errorf("the mark of another node has ended: %q", got)
	}
	post(instances[1], "/v1/node/register", declaration("n2", "ready"), new(wire.RegisterResponse))
	await("the end of the mark by a registration", "n2", "")

	var events wire.EventList
	waitUntil(t, "the event", waitLimit, func() bool {
		retryWhileDown(t, func() error {
			return instances[0].peer.Get(t.Context(), "/v1/events?kind=service_unavailable", &events)
		})
		return len(events.Events) > 0
	})
	if len(events.Events) != 1 || events.Events[0].Detail != "nmt@3: runtime_error" {
		t.Errorf("events %+v, want one for both reports", events.Events)
	}
}
