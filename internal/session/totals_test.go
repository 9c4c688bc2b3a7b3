package session_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The totals count what was sent once, also after some of it was gone and the session was taken over.
func TestTotalsAfterMessagesWereGone(t *testing.T) {
	play(t, func(w *world) {
		w.cfg.OutboxBytes = 100 << 10
		w.over(w.store, w.jobs)
		s, link := w.start()
		token := link.token(t)
		s.Detach()
		large := strings.Repeat("x", 20<<10)
		again, _, err := w.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		var jobs []string
		for range 4 {
			jobs = append(jobs, string(w.utter(again)))
		}
		again.Detach()
		for i := range jobs {
			w.done(w.jobs.jobs()[i], large)
		}
		again, next, err := w.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		n := len(next.heard("result"))
		if e := again.AckResults(3); e != nil {
			t.Fatal(e)
		}
		time.Sleep(time.Second)
		w.move()
		again, next, err = w.resume(s, token, 4)
		if err != nil {
			t.Fatal(err)
		}
		again.End()
		synctest.Wait()
		if m := next.last(t, "session_ended"); m["results"] != float64(n) {
			t.Errorf("%d results were sent: %v", n, m)
		}
	})
}
