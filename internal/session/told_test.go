package session_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestACutIsToldWhenItIsKept: as long as the store does not have it, whoever takes the session over would cut anew, and the
// speaker has been told nothing that would not be true any more.
func TestACutIsToldWhenItIsKept(t *testing.T) {
	play(t, func(w *world) {
		slow := &slowStore{Store: w.store, gate: make(chan struct{})}
		w.over(slow, w.jobs)
		s, link := w.start()
		w.say(s, tone(300))
		if e := s.Hear(session.Words{Final: true, Request: "r"}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		wantCommitted(t, link)
		_, next, err := w.resume(s, link.token(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		wantCommitted(t, next)
		close(slow.gate)
		synctest.Wait()
		wantCommitted(t, link)
		wantCommitted(t, next, "manual")
	})
}

// TestACutIsToldBeforeItsEnd also of an utterance that could never be saved.
func TestACutIsToldBeforeItsEnd(t *testing.T) {
	play(t, func(w *world) {
		w.over(&fullStore{Store: w.store}, w.jobs)
		s, link := w.start()
		w.say(s, tone(300))
		if e := s.Hear(session.Words{Final: true}); e != nil {
			t.Fatal(e)
		}
		time.Sleep(2 * w.cfg.Wait)
		synctest.Wait()
		var order []any
		for _, m := range link.heard("utterance_committed", "error") {
			order = append(order, m["type"])
		}
		if diff := cmp.Diff([]any{"utterance_committed", "error"}, order); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// fullStore takes a session in, and nothing more of it.
type fullStore struct {
	store.Store
	taken atomic.Bool
}

func (s *fullStore) SaveSession(ctx context.Context, p store.SaveParams) (bool, error) {
	if s.taken.Swap(true) {
		return false, errors.New("there is no room left")
	}
	return s.Store.SaveSession(ctx, p)
}

// TestWhatStandsIsTold: somebody else has written how an utterance ended, and no word of it came. What is written here later
// does not count, and is not told either.
func TestWhatStandsIsTold(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		job := w.utter(s)
		first, err := wire.EncodeFrame(wire.Result{Seq: 1, JobID: string(job), TextTgt: "first"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.Append(t.Context(), store.AppendParams{Session: s.ID(), Body: first, Keep: time.Minute}); err != nil {
			t.Fatal(err)
		}
		w.fail(job, core.ReasonDeadline)
		synctest.Wait()
		if diff := cmp.Diff([]string{"0 first"}, link.ends()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
