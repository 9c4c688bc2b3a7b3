package session

import (
	"crypto/rand"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// pongWithin is how long a peer may take to answer a ping before its connection counts as stalled.
const pongWithin = 5 * time.Second

// awaitPause starts to wait for the pause that ends the open utterance, unless only its client ends it.
func (s *Session) awaitPause() {
	s.probe = ""
	if s.set.Manual {
		s.pause.Stop()
	} else {
		s.pause.Reset(s.set.Pause)
	}
}

// paused is called when no audio has come for long enough. That may be a pause, or audio that is stuck on its way: a ping
// tells them apart. The connection keeps the order of what is sent, so when the pong arrives with no audio before it, none
// was on its way. While the connection is lost, the rest may come with the next one.
func (s *Session) paused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.link == nil || s.open == nil || len(s.open.pieces) == 0 || s.set.Manual {
		return
	}
	if left := s.set.Pause - time.Since(s.open.heard); left > 0 {
		s.pause.Reset(left)
		return
	}
	if s.probe != "" { // the pong is overdue
		s.probe = ""
		s.link.Close(wire.CloseSlow, wire.Errorf(wire.DeadlineExceeded,
			"no audio came, and a ping was not answered within %s: connect again and resume; the utterance is still open", pongWithin))
		return
	}
	s.probe = rand.Text()
	s.rooms.counts.PauseProbes.Inc()
	s.link.Ping([]byte(s.probe))
	s.pause.Reset(pongWithin)
}

// Pong takes in the answer to a ping. It does not count as a message of the client: its library answers pings also when
// nobody uses the session any more.
func (t *Connection) Pong(payload []byte) {
	s := t.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == t.link && !s.over && s.probe != "" && string(payload) == s.probe && s.open != nil {
		s.commit(ending{reason: byPause, through: s.counted})
	}
}
