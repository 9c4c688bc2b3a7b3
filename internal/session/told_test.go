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
)

// TestACutIsToldWhenItIsKept: as long as the store does not have it, whoever takes the session over would cut anew, and the
// speaker has been told nothing that would not be true any more.
func TestACutIsToldWhenItIsKept(t *testing.T) {
	play(t, func(w *world) {
		slow := &slowStore{Store: w.store, gate: make(chan struct{})}
		w.over(slow, w.jobs)
		s, link := w.start()
		w.say(s, tone(300))
		if e := s.Audio(session.AudioFrame{Final: true, Request: "r"}); e != nil {
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

// TestACutIsToldBeforeItsEnd also of an utterance that was given up because it could not be saved for so long. Its end waits
// until it is: what has ended has a place that nobody else takes.
func TestACutIsToldBeforeItsEnd(t *testing.T) {
	play(t, func(w *world) {
		full := &fullStore{Store: w.store}
		w.over(full, w.jobs)
		s, link := w.start()
		full.full.Store(true)
		w.say(s, tone(300))
		if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
			t.Fatal(e)
		}
		time.Sleep(2 * w.cfg.Wait)
		synctest.Wait()
		if got := link.heard("utterance_committed", "error"); len(got) != 0 {
			t.Errorf("while nothing can be saved: %v", got)
		}
		full.full.Store(false)
		time.Sleep(w.cfg.Wait)
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

// fullStore takes nothing of a session while it is full.
type fullStore struct {
	store.Store
	full atomic.Bool
}

func (s *fullStore) SaveSession(ctx context.Context, p store.SaveParams) (bool, error) {
	if s.full.Load() {
		return false, errors.New("there is no room left")
	}
	return s.Store.SaveSession(ctx, p)
}

// TestARefusedUtteranceKeepsItsPlace, also when its instance is gone right after.
func TestARefusedUtteranceKeepsItsPlace(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		var jobs []core.JobID
		for range w.cfg.MaxUnanswered {
			jobs = append(jobs, w.utter(s))
		}
		end := func(s *session.Connection) {
			w.say(s, tone(300))
			if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
				t.Fatal(e)
			}
			synctest.Wait()
		}
		end(s)
		wantCommitted(t, link, "manual", "manual", "manual", "manual", "manual")
		for _, job := range jobs {
			w.done(job, "x")
		}
		synctest.Wait()
		for _, heard := range []int64{5, 4} { // it heard the refusal, or did not
			w.move()
			next, ear, err := w.resume(s, link.token(t), heard)
			if err != nil {
				t.Fatal(err)
			}
			if m := ear.last(t, "session_resumed"); heard == 5 && m["next_audio_seq"] != 21.0 {
				t.Errorf("what was refused is asked for again: %v", m)
			}
			if heard == 5 {
				continue
			}
			end(next)
			all := w.jobs.jobs()
			w.done(all[len(all)-1], "next")
			synctest.Wait()
			if diff := cmp.Diff([]string{"4 RATE_LIMITED", "5 next"}, ear.ends()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	})
}

// TestWhatStandsIsTold: somebody else has written how an utterance ended, and no word of it came. What is written here later
// does not count, and is not told either.
func TestWhatStandsIsTold(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		job := w.utter(s)
		first, err := session.Seal(ended(job, w.jobs.placed[job], core.StateDone, "", `{"text_tgt":"first"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.Append(t.Context(), store.AppendParams{Session: s.Ref(), Body: first, Keep: time.Minute}); err != nil {
			t.Fatal(err)
		}
		w.fail(job, core.ReasonDeadline)
		synctest.Wait()
		if diff := cmp.Diff([]string{"0 first"}, link.ends()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
