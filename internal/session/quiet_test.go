package session_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAQuietSessionStillGetsItsResults: a session kept alive without utterances for longer than keep().
func TestAQuietSessionStillGetsItsResults(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		w.done(w.utter(s), "a")
		for range 5 {
			time.Sleep(100 * time.Second)
			s.Keepalive()
		}
		job := w.utter(s)
		w.done(job, "b")
		synctest.Wait()
		wantEnds(t, link, "0 a", "1 b")
	})
}

// TestAQuietSessionCanBeResumedElsewhere: and can it be resumed elsewhere?
func TestAQuietSessionCanBeResumedElsewhere(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		token := link.token(t)
		w.done(w.utter(s), "a")
		for range 5 {
			time.Sleep(100 * time.Second)
			s.Keepalive()
		}
		w.move()
		if _, _, err := w.resume(s, token, 1); err != nil {
			t.Error(err)
		}
	})
}

// TestTotalsAfterAMove: totals after a move.
func TestTotalsAfterAMove(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		token := link.token(t)
		w.done(w.utter(s), "a")
		w.done(w.utter(s), "b")
		w.move()
		again, next, err := w.resume(s, token, 2)
		if err != nil {
			t.Fatal(err)
		}
		again.End()
		synctest.Wait()
		if m := next.last(t, "session_ended"); m["results"] != 2.0 || m["utterances"] != 2.0 {
			t.Errorf("%v", m)
		}
	})
}

// TestMessagesThatAreGone: who comes back after more messages than are kept is told so, and the session goes on.
func TestMessagesThatAreGone(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		token := link.token(t)
		const many = 2100
		for range many {
			w.done(w.utter(s), "x")
			time.Sleep(time.Second)
		}
		s.Detach()
		s, next, err := w.resume(s, token, 1)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if m := next.last(t, "session_resumed"); m["recovered"] != false {
			t.Errorf("%v", m)
		}
		if got := len(next.heard("result")); got < 1000 || got >= many-1 {
			t.Errorf("%d results came again", got)
		}
		w.done(w.utter(s), "y")
		s.End()
		synctest.Wait()
		if m := next.last(t, "session_ended"); m["utterances"] != float64(many+1) {
			t.Errorf("%v", m)
		}
	})
}
