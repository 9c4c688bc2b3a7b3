package dispatch_test

import (
	"testing"
	"testing/synctest"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestUnavailableReportOverRateRetriesJob limits only the marks: the node has given the job up either way.
func TestUnavailableReportOverRateRetriesJob(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("a", 4)
		first := w.dispatch()
		if err := w.ack(first); err != nil {
			t.Fatal(err)
		}
		w.node("b", 4)
		report := func() error {
			return w.life.ReportUnavailable(t.Context(), nodes.Unavailable{Node: "a", Service: "s", Job: first.Job, Attempt: 1})
		}
		for range 60 {
			if err := w.life.ReportUnavailable(t.Context(), nodes.Unavailable{Node: "a", Service: "other"}); err != nil {
				t.Fatal(err)
			}
		}
		wantCode(t, report(), wire.RateLimited)
		synctest.Wait()
		if p := w.placed(first.Job); p.Node != "b" || p.Attempt != 2 {
			t.Errorf("the job is at %+v, want attempt 2 on b", p)
		}
		// Repeated after a lost reply it changes nothing more.
		wantCode(t, report(), wire.RateLimited)
		synctest.Wait()
		if p := w.placed(first.Job); p.Node != "b" || p.Attempt != 2 {
			t.Errorf("after a repeat the job is at %+v, want attempt 2 on b", p)
		}
		if marks, err := w.mem.Marked(t.Context(), "a"); err != nil || len(marks) != 1 || marks[0].Service != "other" {
			t.Errorf("marks %+v, %v; want only the one within the rate", marks, err)
		}
	})
}

// TestUnavailableReportRetriesJobWithoutMark retries the job although the mark could not be written.
func TestUnavailableReportRetriesJobWithoutMark(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("a", 4)
		first := w.dispatch()
		w.node("b", 4)
		w.store.breakNext(true, "mark", 1)
		err := w.life.ReportUnavailable(t.Context(), nodes.Unavailable{Node: "a", Service: "s", Job: first.Job, Attempt: 1})
		wantCode(t, err, wire.SchedulerDependencyDown)
		synctest.Wait()
		if p := w.placed(first.Job); p.Node != "b" || p.Attempt != 2 {
			t.Errorf("the job is at %+v, want attempt 2 on b", p)
		}
		w.wantState(first.Job, core.StateDispatched, core.ReasonModelNotAvailable)
		if marks, err := w.mem.Marked(t.Context(), "a"); err != nil || len(marks) != 0 {
			t.Errorf("marks %+v, %v; want none", marks, err)
		}
	})
}
