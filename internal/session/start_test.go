package session_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestSessionOptionsAreBounded(t *testing.T) {
	run(t, func(h *harness) {
		p := session.StartParams{Langs: [2]core.Lang{"en", "es"}, Options: namedOptions(5000), Request: &wire.SessionStart{}}
		if _, err := h.registry.Start(t.Context(), p, &fakeConn{}); err == nil || !strings.Contains(err.Error(), "options") {
			t.Errorf("a start: %v", err)
		}
		s, _ := h.start()
		o := namedOptions(5000)
		if e := s.Update("", &o, &wire.SessionUpdate{}); e == nil || e.Field != "options" || e.Code != wire.InvalidRequest {
			t.Errorf("an update: %v", e)
		}
	})
}

// Of two concurrent starts with one name, the one that succeeds can be resumed.
func TestConcurrentStartsWithOneName(t *testing.T) {
	run(t, func(h *harness) {
		conns := [2]*fakeConn{{}, {}}
		var wg sync.WaitGroup
		for i := range conns {
			wg.Go(func() {
				_, _ = h.registry.Start(h.t.Context(), session.StartParams{ID: "s1", Langs: [2]core.Lang{"en", "es"}, Request: &wire.SessionStart{}}, conns[i])
			})
		}
		wg.Wait()
		var token string
		for _, l := range conns {
			if m := l.received("session_started"); len(m) > 0 {
				token = m[0]["resume_token"].(string)
			}
		}
		h.replaceInstance()
		if _, err := h.registry.Resume(h.t.Context(), session.ResumeParams{Session: "s1", Token: token}, &fakeConn{}); err != nil {
			t.Error(err)
		}
	})
}

// A start succeeds when the store saved the session and its reply was lost.
func TestStartSurvivesALostReplyOfTheStore(t *testing.T) {
	run(t, func(h *harness) {
		h.restartWith(&lostReplyStore{Store: h.store}, h.dispatcher)
		h.start()
	})
}

// A client that did not receive the answer gets the same session when it repeats the request, here or on another instance, until it sends
// audio. Other clients do not.
func TestRepeatedStartReturnsTheSameSession(t *testing.T) {
	run(t, func(h *harness) {
		const secret = "a secret of its own"
		start := func(token string, tenant core.TenantID) (*session.Connection, *fakeConn, error) {
			conn := &fakeConn{}
			s, err := h.registry.Start(t.Context(), session.StartParams{
				ID: "session-1", Tenant: tenant, Langs: [2]core.Lang{"en", "es"}, Request: &wire.SessionStart{ResumeToken: token},
			}, conn)
			return s, conn, err
		}
		refused := func(why, token string, tenant core.TenantID) {
			t.Helper()
			var e *wire.Error
			if _, _, err := start(token, tenant); !errors.As(err, &e) || e.Code != wire.Forbidden {
				t.Errorf("%s: %v", why, err)
			}
		}
		_, first, err := start(secret, "")
		if err != nil || first.resumeToken(t) != secret {
			t.Fatal(err)
		}
		_, second, err := start(secret, "")
		if err != nil || second.resumeToken(t) != secret {
			t.Fatal(err)
		}
		if first.code != wire.CloseReplaced {
			t.Errorf("the first connection was closed with %d", first.code)
		}
		h.replaceInstance()
		s, third, err := start(secret, "")
		if err != nil || third.resumeToken(t) != secret {
			t.Fatal(err)
		}
		refused("another secret", "a secret of another", "")
		refused("no secret", "", "")
		h.complete(h.commit(s), "hola")
		if got := third.terminals(); len(got) != 1 {
			t.Errorf("received %v", got)
		}
		refused("a session that received audio", secret, "")
		h.replaceInstance()
		refused("such a session on another instance", secret, "")
	})
}

// A late repetition of a start takes no session over in which the client has sent audio.
func TestLateStartDoesNotTakeAUsedSession(t *testing.T) {
	run(t, func(h *harness) {
		start := func(r *session.Registry) (*session.Connection, *fakeConn, error) {
			conn := &fakeConn{}
			s, err := r.Start(t.Context(), session.StartParams{
				ID: "session-1", Langs: [2]core.Lang{"en", "es"}, Request: &wire.SessionStart{ResumeToken: "a secret of its own"},
			}, conn)
			return s, conn, err
		}
		s, conn, err := start(h.registry)
		if err != nil {
			t.Fatal(err)
		}
		job := h.commit(s)
		other := h.newRegistry(h.store, h.dispatcher)
		defer other.Close()
		if _, _, err := start(other); err == nil {
			t.Error("a session in use was started on another instance")
		}
		h.complete(job, "hola")
		h.complete(h.commit(s), "hola")
		if got := conn.terminals(); len(got) != 2 || conn.code != 0 {
			t.Errorf("the client received %v, and was closed with %d", got, conn.code)
		}
	})
}

// A session that was asked to end is not started again by a repeated request.
func TestStartAfterEndIsRefused(t *testing.T) {
	run(t, func(h *harness) {
		p := session.StartParams{ID: "session-1", Langs: [2]core.Lang{"en", "es"}, Request: &wire.SessionStart{ResumeToken: "a secret of its own"}}
		s, err := h.registry.Start(t.Context(), p, &fakeConn{})
		if err != nil {
			t.Fatal(err)
		}
		s.End()
		var e *wire.Error
		if _, err := h.registry.Start(t.Context(), p, &fakeConn{}); !errors.As(err, &e) || e.Code != wire.Forbidden {
			t.Errorf("a start after the end: %v", err)
		}
	})
}
