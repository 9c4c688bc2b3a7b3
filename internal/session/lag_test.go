package session_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
)

// lag returns the sum of each part of the lag in milliseconds, and how many results were observed.
func (h *harness) lag() (parts map[string]int64, results uint64) {
	h.t.Helper()
	families, err := h.metrics.Registry.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	parts = make(map[string]int64)
	for _, f := range families {
		if f.GetName() != "lingua_lag_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			parts[m.GetLabel()[0].GetValue()] = int64(math.Round(m.GetHistogram().GetSampleSum() * 1000))
			results = m.GetHistogram().GetSampleCount()
		}
	}
	return parts, results
}

// wantLag compares the lag of all results, in milliseconds.
func (h *harness) wantLag(segmentation, wait, dispatch, node, back int64) {
	h.t.Helper()
	want := map[string]int64{
		"segmentation": segmentation, "wait": wait, "dispatch": dispatch, "node": node, "return": back, "total": segmentation + wait + dispatch + node + back,
	}
	got, results := h.lag()
	if diff := cmp.Diff(want, got); diff != "" || results != 1 {
		h.t.Errorf("%d results; their lag (-want +got):\n%s", results, diff)
	}
}

// endJob ends the only job, which was created after the wait, started a while later and ended another while after that.
func (h *harness) endJob(dispatch, node time.Duration) {
	h.t.Helper()
	id := h.dispatcher.jobs()[0]
	h.dispatcher.mu.Lock()
	spec := h.dispatcher.placed[id]
	h.dispatcher.mu.Unlock()
	job := endedJob(id, spec, core.StateDone, "", `{"text_tgt":"a"}`)
	job.Created, job.History = job.Updated.Add(-dispatch-node), nil
	job.BeginAttempt(job.Updated.Add(-node))
	if err := h.registry.JobEnded(h.t.Context(), job, time.Now()); err != nil {
		h.t.Fatal(err)
	}
	synctest.Wait()
}

// TestLagAfterSilence: segmentation counts from the last frame that contained speech, and what is in no other part is the return.
func TestLagAfterSilence(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		h.stream(s, append(tone(500), silence(1500)...)) // the last speech arrives at 400 ms, the silence has lasted long enough at 1400 ms
		time.Sleep(400 * time.Millisecond)
		h.endJob(300*time.Millisecond, 500*time.Millisecond) // at 2400 ms
		h.wantLag(1000, 0, 300, 500, 200)
		latency := conn.last(t, "result")["latency"].(map[string]any)
		want := map[string]any{"segmentation_ms": 1000.0, "wait_ms": 0.0, "dispatch_ms": 300.0, "node_ms": 500.0, "total_ms": 800.0}
		if diff := cmp.Diff(want, latency); diff != "" {
			t.Errorf("the latency of the result (-want +got):\n%s", diff)
		}
	})
}

// TestLagAfterManualEnd: if the client ends the utterance, it ends with the speech.
func TestLagAfterManualEnd(t *testing.T) {
	run(t, func(h *harness) {
		s, _ := h.start()
		h.stream(s, append(tone(500), silence(500)...))
		h.send(s, session.AudioFrame{Final: true})
		time.Sleep(time.Second)
		h.endJob(0, time.Second)
		h.wantLag(0, 0, 0, 1000, 0)
	})
}

// TestLagAfterPause: without audio, segmentation is the time since the last of it.
func TestLagAfterPause(t *testing.T) {
	run(t, func(h *harness) {
		s, _ := h.start()
		h.stream(s, tone(300)) // the last frame arrives at 200 ms
		time.Sleep(2 * time.Second)
		synctest.Wait()
		h.endJob(0, 100*time.Millisecond) // at 2300 ms; the utterance ended at 1200 ms
		h.wantLag(1000, 0, 0, 100, 1000)
	})
}

// TestLagWithWait: the wait for a node is a part of its own.
func TestLagWithWait(t *testing.T) {
	run(t, func(h *harness) {
		conn := h.commitToFullFleet()
		h.endJob(0, time.Millisecond)
		wait := int64(conn.last(t, "result")["latency"].(map[string]any)["wait_ms"].(float64))
		h.wantLag(0, wait, 0, 1, 6000-wait-1)
	})
}

// TestLagOfResultAfterAnother: a result that waits for the one before it has that time in its return.
func TestLagOfResultAfterAnother(t *testing.T) {
	run(t, func(h *harness) {
		s, _ := h.start()
		first, second := h.commit(s), h.commit(s) // at 300 and 600 ms
		time.Sleep(2 * time.Second)
		h.complete(second, "b")
		time.Sleep(time.Second)
		if _, results := h.lag(); results != 0 {
			t.Fatalf("%d results were sent, and the first is missing", results)
		}
		h.complete(first, "a")
		synctest.Wait()
		got, results := h.lag()
		want := map[string]int64{"segmentation": 0, "wait": 0, "dispatch": 0, "node": 2000, "return": 2300 + 2000, "total": 6300}
		if diff := cmp.Diff(want, got); diff != "" || results != 2 {
			t.Errorf("%d results; their lag (-want +got):\n%s", results, diff)
		}
	})
}

// TestFailuresHaveNoLag: an utterance without a result is not observed.
func TestFailuresHaveNoLag(t *testing.T) {
	run(t, func(h *harness) {
		s, _ := h.start()
		h.failJob(h.commit(s), core.ReasonMaxRetry)
		synctest.Wait()
		if _, results := h.lag(); results != 0 {
			t.Errorf("%d results were observed", results)
		}
	})
}
