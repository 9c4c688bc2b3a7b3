package server_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestOneRequestOneJob sends one request from 64 callers at once: one job, one delivery, 64 equal answers.
func TestOneRequestOneJob(t *testing.T) {
	t.Parallel()
	const callers = 64
	w := newWorld(t)
	// The delivery is held until the job's answer is awaited by many; a second one would be seen meanwhile.
	hold := make(chan struct{})
	for _, id := range []string{"a", "b", "c"} {
		w.node(id, nil).answers(func(http.ResponseWriter, *http.Request) { <-hold })
	}
	body := utterance(obj{"request_id": "req-1", "audio_ref": "blob://1"})
	answers := make([]answer, callers)
	var ready, asked sync.WaitGroup
	start := make(chan struct{})
	for i := range callers {
		ready.Add(1)
		asked.Go(func() {
			ready.Done()
			<-start
			answers[i] = w.post("/v1/dispatch/f2f", body)
		})
	}
	ready.Wait()
	close(start)
	d, n := w.next()
	close(hold)
	asked.Wait()

	for _, a := range answers {
		a.is(obj{"job_id": d.JobID, "node_id": n.id, "attempt_id": 1})
	}
	w.nothing()
	var list wire.JobList
	w.get("/v1/jobs").into(&list)
	if len(list.Jobs) != 1 || list.Jobs[0].RequestID != "req-1" {
		t.Errorf("want one job of req-1, got %+v", list.Jobs)
	}
	if s := w.status(n.id); s.EffectiveLoad != 1 {
		t.Errorf("want one slot taken, got %+v", s)
	}
}

// TestRepeatedRequest answers the same in every state of the job.
func TestRepeatedRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", obj{"max_concurrent_jobs": 1})
	body := utterance(obj{"request_id": "req-1", "audio_ref": "https://audio/1?sig=a"})
	d, _ := w.begin(body)
	same := obj{"job_id": d.JobID, "node_id": "n1", "attempt_id": 1}
	again := func() {
		t.Helper()
		w.post("/v1/dispatch/f2f", body).is(same)
		// A signature in the query is made anew at each try.
		w.post("/v1/dispatch/f2f", body.with(obj{"audio_ref": "https://audio/1?sig=b"})).is(same)
		w.nothing()
	}
	again()
	n.ack(d, nil).ok()
	again()
	n.done(d, nil).ok()
	again()
	w.ask("POST", "/v1/nodes/n1/drain", "", nil)
	again() // nobody could take it now, but it was taken
}

// TestRepeatedRequestAfterRetry names whoever has the job now.
func TestRepeatedRequestAfterRetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node("a", nil)
	w.node("b", nil)
	body := utterance(obj{"request_id": "req-1"})
	d, n := w.begin(body)
	n.fail(d, nil).ok()
	d2, second := w.next()
	w.post("/v1/dispatch/f2f", body).is(obj{"job_id": d.JobID, "node_id": second.id, "attempt_id": 2})
	second.done(d2, nil).ok()
}

// TestOtherContent refuses a request id that was used for something else, whatever differs.
func TestOtherContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node("n1", obj{"max_concurrent_jobs": 100})
	body := utterance(obj{"request_id": "req-1", "audio_ref": "blob://1"})
	d, _ := w.begin(body)
	before := w.job(d.JobID)
	for name, change := range map[string]obj{
		"session":   {"session_id": "room-999"},
		"source":    {"src_lang": "de"},
		"target":    {"src_lang": "zh", "tgt_lang": "en"},
		"audio":     {"audio_ref": "blob://2"},
		"tts":       {"options": obj{"require_tts": true}},
		"services":  {"options": obj{"required_services": []string{"s"}}},
		"models":    {"options": obj{"required_models": []string{"m"}}},
		"features":  {"options": obj{"features": []string{"f"}}},
		"preferred": {"options": obj{"preferred_node_id": "n1"}},
		"region":    {"options": obj{"region": "eu"}},
	} {
		e := w.post("/v1/dispatch/f2f", body.with(change)).refused(wire.RequestMismatch)
		if e.Field != "request_id" || e.JobID != d.JobID {
			t.Errorf("%s: want the field and the job named, got %+v", name, e)
		}
	}
	if diff := cmp.Diff(before, w.job(d.JobID)); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
	w.nothing()

	other := w.placed(body.with(obj{"tenant_id": "acme"}))
	if other.JobID == d.JobID {
		t.Error("two tenants share a job because they chose the same request_id")
	}
}

// TestRefusalIsNotRemembered lets the same request succeed once there is room.
func TestRefusalIsNotRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := utterance(obj{"request_id": "req-1"})
	w.post("/v1/dispatch/f2f", body).refused(wire.NoCapableNode)
	n := w.node("n1", nil)
	busy := func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusTooManyRequests) }
	n.answers(busy)
	w.post("/v1/dispatch/f2f", body).refused(wire.AllCandidatesFullOrFailed)
	w.next()
	n.answers(nil)
	w.begin(body)
}
