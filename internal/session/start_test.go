package session_test

import (
	"errors"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestAStartThatIsSaidAgain: whoever lost the answer gets the same session, here or elsewhere, as long as nothing was said in
// it. Nobody else does.
func TestAStartThatIsSaidAgain(t *testing.T) {
	play(t, func(w *world) {
		const secret = "a secret of its own"
		start := func(token string, tenant core.TenantID) (*session.Connection, *ear, error) {
			link := &ear{}
			s, err := w.rooms.Start(t.Context(), session.StartParams{
				ID: "room", Tenant: tenant, Langs: [2]core.Lang{"en", "es"}, Request: &wire.SessionStart{ResumeToken: token},
			}, link)
			return s, link, err
		}
		refused := func(why, token string, tenant core.TenantID) {
			t.Helper()
			var e *wire.Error
			if _, _, err := start(token, tenant); !errors.As(err, &e) || e.Code != wire.Forbidden {
				t.Errorf("%s: %v", why, err)
			}
		}
		_, first, err := start(secret, "")
		if err != nil || first.token(t) != secret {
			t.Fatal(err)
		}
		_, second, err := start(secret, "")
		if err != nil || second.token(t) != secret {
			t.Fatal(err)
		}
		if first.code != wire.CloseReplaced {
			t.Errorf("the first connection was closed with %d", first.code)
		}
		w.move()
		s, third, err := start(secret, "")
		if err != nil || third.token(t) != secret {
			t.Fatal(err)
		}
		refused("another secret", "a secret of another", "")
		refused("no secret", "", "")
		w.done(w.utter(s), "hola")
		if got := third.ends(); len(got) != 1 {
			t.Errorf("heard %v", got)
		}
		refused("a session in which something was said", secret, "")
		w.move()
		refused("such a session elsewhere", secret, "")
	})
}

// TestAStartThatComesLate takes a session from nobody who speaks in it, or has ended it.
func TestAStartThatComesLate(t *testing.T) {
	play(t, func(w *world) {
		start := func(r *session.Registry) (*session.Connection, *ear, error) {
			link := &ear{}
			s, err := r.Start(t.Context(), session.StartParams{
				ID: "room", Langs: [2]core.Lang{"en", "es"}, Request: &wire.SessionStart{ResumeToken: "a secret of its own"},
			}, link)
			return s, link, err
		}
		s, link, err := start(w.rooms)
		if err != nil {
			t.Fatal(err)
		}
		job := w.utter(s)
		other := w.another(w.store, w.jobs)
		defer other.Close()
		if _, _, err := start(other); err == nil {
			t.Error("it was started elsewhere in the middle of it")
		}
		w.done(job, "hola")
		w.done(w.utter(s), "hola")
		if got := link.ends(); len(got) != 2 || link.code != 0 {
			t.Errorf("who speaks heard %v, and was closed with %d", got, link.code)
		}
	})
}

// TestAStartAfterTheEnd is none: the session is over.
func TestAStartAfterTheEnd(t *testing.T) {
	play(t, func(w *world) {
		p := session.StartParams{ID: "room", Langs: [2]core.Lang{"en", "es"}, Request: &wire.SessionStart{ResumeToken: "a secret of its own"}}
		s, err := w.rooms.Start(t.Context(), p, &ear{})
		if err != nil {
			t.Fatal(err)
		}
		s.End()
		var e *wire.Error
		if _, err := w.rooms.Start(t.Context(), p, &ear{}); !errors.As(err, &e) || e.Code != wire.Forbidden {
			t.Errorf("%v", err)
		}
	})
}
