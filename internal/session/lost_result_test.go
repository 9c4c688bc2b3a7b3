package session_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// Large results that waited for an earlier one all come when that has ended.
func TestLargeResultsInDisorderAllCome(t *testing.T) {
	play(t, func(w *world) {
		w.cfg.MaxUnanswered = 16
		w.over(w.store, w.jobs)
		s, link := w.start()
		for range 12 {
			w.utter(s)
			time.Sleep(time.Second)
		}
		jobs := w.jobs.jobs()
		large := strings.Repeat("x", 100<<10)
		for _, id := range jobs[1:] {
			w.done(id, large)
		}
		w.done(jobs[0], "first")
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		var got []float64
		for _, m := range link.heard("result", "error") {
			got = append(got, m["utterance_index"].(float64))
		}
		if diff := cmp.Diff([]float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// holed is a store that has lost some durable messages.
type holed struct {
	store.Store
	from, to int64
}

func (h *holed) Read(ctx context.Context, p store.ReadParams) ([]store.OutboxMessage, error) {
	list, err := h.Store.Read(ctx, p)
	return slices.DeleteFunc(list, func(m store.OutboxMessage) bool { return m.Seq >= h.from && m.Seq <= h.to }), err
}

// An utterance whose result was lost before it could be sent ends with an error, in its place.
func TestResultsLostBeforeTheyWereSentEndWithAnError(t *testing.T) {
	for name, lost := range map[string][2]int64{"in the middle": {3, 4}, "at the end": {5, 6}} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.cfg.MaxUnanswered = 16
				w.over(&holed{w.store, lost[0], lost[1]}, w.jobs)
				s, link := w.start()
				for range 6 {
					w.utter(s)
					time.Sleep(time.Second)
				}
				jobs := w.jobs.jobs()
				w.done(jobs[1], strings.Repeat("x", 120<<10)) // so that no other is at hand
				for _, id := range jobs[2:] {
					w.done(id, strings.Repeat("y", 30<<10))
				}
				w.done(jobs[0], "first")
				synctest.Wait()
				var got []string
				for i, m := range link.heard("result", "error") {
					if m["utterance_index"] != float64(i) || m["seq"] != float64(i+1) {
						t.Errorf("message %d: %v, %v", i, m["utterance_index"], m["seq"])
					}
					got = append(got, m["type"].(string))
				}
				want := []string{"result", "result", "result", "result", "result", "result"}
				want[lost[0]-1], want[lost[1]-1] = "error", "error"
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				s.End()
				synctest.Wait()
				if m := link.last(t, "session_ended"); m["results"] != 4.0 || m["errors"] != 2.0 {
					t.Errorf("%v", m)
				}
			})
		})
	}
}
