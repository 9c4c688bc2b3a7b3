package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestEverybodyIsAskedToLeave, and who does not is closed, not all at once; what was said is not lost.
func TestEverybodyIsAskedToLeave(t *testing.T) {
	play(t, func(w *world) {
		const within = 10 * time.Second
		s, goes := w.start()
		token := goes.token(t)
		job := w.utter(s)
		var stay []*ear
		for range 20 {
			_, link := w.start()
			stay = append(stay, link)
		}
		began := time.Now()
		gone := make(chan struct{})
		go func() {
			w.rooms.GoAway(w.t.Context(), "this instance is stopping", within)
			close(gone)
		}()
		synctest.Wait()
		if m := goes.last(t, "go_away"); m["reconnect_ms"] != 10_000.0 {
			t.Errorf("%v", m)
		}
		goes.disconnect() // this client reconnects at once
		s.Detach()
		moments := make(map[time.Duration]int)
		for left := len(stay); left > 0; time.Sleep(100 * time.Millisecond) {
			synctest.Wait()
			for i, link := range stay {
				if link == nil {
					continue
				}
				if code, e := link.closed(); code != 0 {
					if code != wire.CloseDraining || e == nil {
						t.Errorf("closed with %d, %v", code, e)
					}
					moments[time.Since(began)]++
					stay[i] = nil
					left--
				}
			}
			if time.Since(began) > 2*within {
				t.Fatalf("%d were never closed", left)
			}
		}
		<-gone
		for at, n := range moments {
			if at < within/2 || n > 5 {
				t.Errorf("%d were closed after %v", n, at)
			}
		}
		w.move()
		w.done(job, "a")
		_, again, err := w.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantEnds(t, again, "0 a")
	})
}
