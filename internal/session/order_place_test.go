package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/session"
)

// orderDesk notes who asks, and lets them wait until the test says so.
type orderDesk struct {
	*desk
	asked chan int64 // turns
	gate  chan struct{}
}

func (d *orderDesk) DispatchWaiting(ctx context.Context, r dispatch.Request, w dispatch.Wait) (dispatch.Placement, error) {
	d.asked <- r.Utterance.Turn
	select {
	case <-d.gate:
	case <-ctx.Done():
		return dispatch.Placement{}, ctx.Err()
	}
	return d.desk.DispatchWaiting(ctx, r, w)
}

// Utterances of a session that the same nodes could serve are placed in their order; those of the other direction do not
// wait for them.
func TestUtterancesArePlacedOldestFirst(t *testing.T) {
	play(t, func(w *world) {
		d := &orderDesk{desk: w.jobs, asked: make(chan int64, 16), gate: make(chan struct{})}
		w.over(w.store, d)
		s, _ := w.start()
		for _, src := range []string{"en", "en", "es", "en"} {
			w.hear(s, session.AudioFrame{Data: tone(100), Src: core.Lang(src), Final: true})
			time.Sleep(200 * time.Millisecond)
		}
		synctest.Wait()
		var asked []int64
		drain := func() []int64 {
			synctest.Wait()
			for len(d.asked) > 0 {
				asked = append(asked, <-d.asked)
			}
			return asked
		}
		if diff := cmp.Diff([]int64{1, 3}, drain()); diff != "" {
			t.Errorf("at first (-want +got):\n%s", diff)
		}
		close(d.gate)
		if diff := cmp.Diff([]int64{1, 3, 2, 4}, drain()); diff != "" {
			t.Errorf("in the end (-want +got):\n%s", diff)
		}
	})
}

// An utterance that is cancelled while it waits lets the next one through.
func TestCancelledUtteranceLetsTheNextThrough(t *testing.T) {
	play(t, func(w *world) {
		d := &orderDesk{desk: w.jobs, asked: make(chan int64, 16), gate: make(chan struct{})}
		w.over(w.store, d)
		s, link := w.start()
		for _, id := range []string{"u-1", "u-2"} {
			w.hear(s, session.AudioFrame{Utterance: id, Data: tone(100), Final: true})
			time.Sleep(200 * time.Millisecond)
		}
		synctest.Wait()
		if e := s.Cancel("u-1", ""); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		close(d.gate)
		synctest.Wait()
		for _, id := range w.jobs.jobs() {
			w.done(id, "b")
		}
		synctest.Wait()
		wantEnds(t, link, "0 CANCELLED", "1 b")
	})
}

// The cut of an utterance is stored and told at once, however long those before it wait for a node.
func TestCommitDoesNotWaitForEarlierUtterances(t *testing.T) {
	play(t, func(w *world) {
		d := &orderDesk{desk: w.jobs, asked: make(chan int64, 16), gate: make(chan struct{})}
		w.over(w.store, d)
		s, link := w.start()
		for range 3 {
			w.hear(s, session.AudioFrame{Data: tone(100), Final: true})
			time.Sleep(200 * time.Millisecond)
		}
		synctest.Wait()
		if told := link.heard("utterance_committed"); len(told) != 3 {
			t.Errorf("%d of 3 utterances were committed while the first waits for a node", len(told))
		}
		close(d.gate)
	})
}
