package server_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// services are one of each type, ready.
func services() []obj {
	var list []obj
	for _, kind := range []string{"asr", "semantic", "nmt", "tts"} {
		list = append(list, obj{"service_id": kind + "-1", "version": "1", "type": kind, "status": "ready"})
	}
	return list
}

// refusals wants that dispatch and explain name the same reason for the only node; none: that it gets the job.
func (w *world) reasons(body obj, want map[string]int) {
	w.t.Helper()
	var x wire.ExplainResponse
	w.post("/v1/dispatch/explain", body).into(&x)
	if diff := cmp.Diff(want, x.Reasons); diff != "" {
		w.t.Errorf("explain (-want +got)\n%s", diff)
	}
	if len(want) == 0 {
		d, n := w.begin(body)
		n.done(d, nil).ok()
		return
	}
	if e := w.post("/v1/dispatch/f2f", body).refused(wire.AllCandidatesFullOrFailed); !cmp.Equal(e.Reasons, want) {
		w.t.Errorf("dispatch says %v, want %v", e.Reasons, want)
	}
}

// TestServiceStatusGatesJobs: a node that declares services of a type which a job needs must have one of them ready.
func TestServiceStatusGatesJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", obj{"installed_services": services()})
	plain, spoken := utterance(nil), utterance(obj{"options": obj{"require_tts": true}})
	w.reasons(plain, map[string]int{})
	for _, c := range []struct{ service, status, reason string }{
		{"asr-1", "downloading", "ASR_SERVICE_NOT_READY"},
		{"semantic-1", "verifying", "SEMANTIC_SERVICE_NOT_READY"},
		{"nmt-1", "error", "NMT_SERVICE_NOT_READY"},
	} {
		n.beat(obj{"capability_state": obj{c.service: c.status}})
		w.reasons(plain, map[string]int{c.reason: 1})
		n.beat(obj{}) // what is not said is unchanged
		w.reasons(plain, map[string]int{c.reason: 1})
		n.beat(obj{"capability_state": obj{c.service: "ready"}})
		w.reasons(plain, map[string]int{})
	}
	n.beat(obj{"capability_state": obj{"tts-1": "stopped", "unknown": "error"}})
	w.reasons(plain, map[string]int{})
	w.reasons(spoken, map[string]int{"TTS_SERVICE_NOT_READY": 1})
	// A second one of the type is as good; and a new list says itself how its services are.
	n.beat(obj{"installed_services": append(services(), obj{"service_id": "tts-2", "type": "tts", "status": "ready"}), "capability_state": obj{"tts-1": "error"}})
	w.reasons(spoken, map[string]int{})
	n.beat(obj{"installed_services": services(), "capability_state": obj{"tts-1": "error"}})
	w.reasons(spoken, map[string]int{"TTS_SERVICE_NOT_READY": 1})
	n.beat(obj{"installed_services": services()})
	w.reasons(spoken, map[string]int{})
	for _, s := range w.status("n1").InstalledServices {
		if s.Status != "ready" {
			t.Errorf("%+v", s)
		}
	}
}

// TestMarkedServiceGatesJobs: a mark makes a service not ready, and the same rule decides.
func TestMarkedServiceGatesJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", obj{"installed_services": append(services(), obj{"service_id": "asr-2", "type": "asr", "status": "ready"})})
	mark := func(service string) {
		t.Helper()
		w.post("/v1/node/model_not_available", obj{"node_id": n.id, "service_id": service}).ok()
	}
	mark("never-declared")
	w.reasons(utterance(nil), map[string]int{})
	mark("asr-1")
	w.reasons(utterance(nil), map[string]int{}) // the other one of its type is ready
	w.reasons(utterance(obj{"options": obj{"required_services": []string{"asr-1"}}}), map[string]int{"SERVICE_MARKED_UNAVAILABLE": 1})
	mark("asr-2")
	w.reasons(utterance(nil), map[string]int{"ASR_SERVICE_NOT_READY": 1})
}

// TestCapabilityStateAtRegistration wins over installed_services, over HTTP and over a socket.
func TestCapabilityStateAtRegistration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.stranger("n1")
	said := capable(obj{"node_id": "n1", "callback_url": n.srv.URL, "installed_services": services(), "capability_state": obj{"nmt-1": "installing"}})
	var r wire.RegisterResponse
	w.post("/v1/node/register", said).into(&r)
	w.reasons(utterance(nil), map[string]int{"NMT_SERVICE_NOT_READY": 1})

	s := w.connect("/ws/node")
	s.say(said.with(obj{"type": "node_register", "callback_url": nil, "active": []obj{}}))
	s.until("node_register_ack")
	w.reasons(utterance(nil), map[string]int{"NMT_SERVICE_NOT_READY": 1})
	s.say(obj{"type": "node_heartbeat", "active": []obj{}, "capability_state": obj{"nmt-1": "ready"}})
	w.eventually("the service is ready", func() bool {
		var x wire.ExplainResponse
		w.post("/v1/dispatch/explain", utterance(nil)).into(&x)
		return len(x.Reasons) == 0
	})
	for _, bad := range []obj{{"nmt-1": "fine"}, {"": "ready"}, {"nmt-1": 1}} {
		e := w.post("/v1/node/heartbeat", obj{"node_id": "n1", "capability_state": bad}).refused(wire.InvalidRequest)
		if e.Field == "" {
			t.Errorf("%v: %+v", bad, e)
		}
	}
}
