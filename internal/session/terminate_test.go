package session_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// revokedBefore is the revocation of all sessions that started where it was not known.
type revokedBefore struct{ time.Time }

func (r *revokedBefore) SessionRevoked(_ core.SessionKey, started, known time.Time) *store.Revocation {
	if entry := (&store.Revocation{Now: true, At: r.Time}); entry.Covers(started, known) {
		return entry
	}
	return nil
}

func (r *revokedBefore) Latest() time.Time { return r.Time }

// endSession is the verdict that ends the session of a name.
func endSession(name core.SessionID) session.Verdict {
	return func(s *session.Info) (wire.CloseCode, *wire.Error) {
		if s.Name != name {
			return 0, nil
		}
		return wire.CloseEnded, wire.Errorf(wire.SessionEndedCode, "ended")
	}
}

// wantUnknown checks that a session cannot be resumed.
func wantUnknown(t *testing.T, h *harness, s *session.Connection, token string) {
	t.Helper()
	_, _, err := h.resume(s, token, 0)
	if e := new(wire.Error); !errors.As(err, &e) || e.Code != wire.NotFound {
		t.Errorf("a terminated session was resumed: %v", err)
	}
}

// TestTerminate: a terminated session ends for good. Its jobs are cancelled, its connection is closed, it cannot be resumed, and its name
// is free. Others are not affected.
func TestTerminate(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.startNamed("", "s1")
		other, otherConn := h.startNamed("", "s2")
		h.commit(s)
		h.commit(s)
		jobs := h.dispatcher.jobs()
		h.commit(other)
		time.Sleep(time.Second)
		if e := s.Update("es", nil, &wire.SessionUpdate{}); e != nil { // which is saved after a moment
			t.Fatal(e)
		}
		if n := h.registry.TerminateIf(endSession("s1")); n != 1 {
			t.Fatalf("%d sessions were terminated", n)
		}
		time.Sleep(time.Second)
		if code, e := conn.closed(); code != wire.CloseEnded || e.Code != wire.SessionEndedCode {
			t.Errorf("closed with %d, %v", code, e)
		}
		if code, _ := otherConn.closed(); code != 0 {
			t.Errorf("another session was closed with %d", code)
		}
		h.dispatcher.mu.Lock()
		cancelled := slices.Sorted(slices.Values(h.dispatcher.cancelled))
		h.dispatcher.mu.Unlock()
		if slices.Sort(jobs); len(jobs) != 2 || !slices.Equal(cancelled, jobs) {
			t.Errorf("cancelled %v of %v", cancelled, jobs)
		}
		if e := s.Audio(session.AudioFrame{Data: tone(100)}); e != nil {
			t.Errorf("audio that crossed the end: %v", e)
		}
		wantUnknown(t, h, s, conn.resumeToken(t))
		if exists, err := h.registry.Exists(t.Context(), core.SessionKey{Name: "s1"}); exists || err != nil {
			t.Errorf("it exists: %v, %v", exists, err)
		}
		if n := h.registry.TerminateIf(endSession("s1")); n != 0 {
			t.Errorf("it was terminated again")
		}
		h.startNamed("", "s1")
		if list := h.registry.List(); len(list) != 2 {
			t.Errorf("%d sessions are listed", len(list))
		}
	})
}

// TestTerminateWhileWaiting: an utterance that waits for a node when its session is terminated never becomes a job.
func TestTerminateWhileWaiting(t *testing.T) {
	run(t, func(h *harness) {
		h.dispatcher.mu.Lock()
		h.dispatcher.refusal = wire.Errorf(wire.AllCandidatesFullOrFailed, "full")
		h.dispatcher.mu.Unlock()
		s, conn := h.startNamed("", "s1")
		h.stream(s, tone(200))
		h.send(s, session.AudioFrame{Final: true})
		synctest.Wait()
		if len(conn.received("utterance_committed")) != 1 {
			t.Fatal("the utterance is not committed")
		}
		h.registry.TerminateIf(endSession("s1"))
		h.dispatcher.mu.Lock()
		h.dispatcher.refusal = nil
		h.dispatcher.mu.Unlock()
		time.Sleep(time.Minute)
		if jobs := h.dispatcher.jobs(); len(jobs) != 0 {
			t.Errorf("jobs %v were placed", jobs)
		}
		wantUnknown(t, h, s, conn.resumeToken(t))
	})
}

// TestTerminateWhileTheStoreIsAway: the state is dropped when the store is back.
func TestTerminateWhileTheStoreIsAway(t *testing.T) {
	run(t, func(h *harness) {
		st := &fullStore{Store: h.store}
		h.restartWith(st, h.dispatcher)
		s, conn := h.startNamed("", "s1")
		st.full.Store(true)
		h.registry.TerminateIf(endSession("s1"))
		time.Sleep(10 * time.Second)
		st.full.Store(false)
		time.Sleep(2 * time.Second)
		wantUnknown(t, h, s, conn.resumeToken(t))
		h.startNamed("", "s1")
	})
}

// TestRevokedStateOfADeadInstance: a revoked session whose instance is gone cannot be resumed, and its name is free at once. The session
// that uses the name next is not revoked.
func TestRevokedStateOfADeadInstance(t *testing.T) {
	run(t, func(h *harness) {
		revoked := new(revokedBefore)
		h.cfg.Revocations = revoked
		h.replaceInstance()
		s, conn := h.startNamed("", "s1")
		h.commit(s)
		h.replaceInstance()
		revoked.Time = time.Now().Add(5 * time.Second)
		wantUnknown(t, h, s, conn.resumeToken(t))
		next, nextConn := h.startNamed("", "s1")
		if list := h.registry.List(); len(list) != 1 || list[0].Known.Before(revoked.Time) {
			t.Errorf("%+v", list)
		}
		h.replaceInstance()
		if _, _, err := h.resume(next, nextConn.resumeToken(t), 0); err != nil {
			t.Errorf("the next session of the name: %v", err)
		}
	})
}
