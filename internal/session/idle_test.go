package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// The server pings a silent connection, and every WebSocket library answers by itself: that is nobody's word.
func TestPongsDoNotKeepAnIdleSession(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		for range 30 {
			time.Sleep(15 * time.Second)
			s.Pong(nil)
		}
		synctest.Wait()
		if code, _ := link.closed(); code != wire.CloseIdle {
			t.Errorf("after 7.5 minutes of nothing but pongs, with %v allowed, it is closed with %d", w.cfg.Idle, code)
		}
	})
}

// An earlier connection that is still read does not race with what the present one changes.
func TestNumberedOfAReplacedConnection(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		again, _, err := w.resume(s, link.token(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan bool)
		go func() {
			for range 100 {
				_ = s.Numbered()
			}
			close(done)
		}()
		for range 100 {
			_ = again.Update("en", nil, &wire.SessionUpdate{})
		}
		<-done
	})
}
