package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/tenants"
	"github.com/lingua-scheduler/lingua/wire"
)

// runLimited runs a test in which the tenant acme may have so many sessions.
func runLimited(t *testing.T, limit int, fn func(h *harness, gate *tenants.Gate)) {
	t.Helper()
	run(t, func(h *harness) {
		table := tenants.NewTable(map[core.TenantID]core.TenantLimits{"acme": {Sessions: limit}})
		gate := tenants.NewGate(tenants.NewCurrent(table), h.store, func(store.TenantLimit) {})
		h.cfg.Tenants = gate
		h.replaceInstance()
		fn(h, gate)
	})
}

// startOf starts a session of acme, or returns why it was refused.
func (h *harness) startOf(name core.SessionID, token string) (*session.Connection, *fakeConn, *wire.Error) {
	h.t.Helper()
	conn := &fakeConn{}
	s, err := h.registry.Start(h.t.Context(), session.StartParams{
		ID: name, Tenant: "acme", Langs: [2]core.Lang{"en", "es"}, Request: &wire.SessionStart{ResumeToken: token},
	}, conn)
	var e *wire.Error
	if errors.As(err, &e) {
		return nil, nil, e
	}
	if err != nil {
		h.t.Fatal(err)
	}
	conn.setConnection(s)
	return s, conn, nil
}

// countedSessions is how many sessions of acme are counted, when nothing is on its way.
func countedSessions(h *harness, gate *tenants.Gate) int {
	h.t.Helper()
	synctest.Wait()
	use, err := gate.Use(h.t.Context(), []core.TenantID{"acme"})
	if err != nil {
		h.t.Fatal(err)
	}
	return use[0].Sessions
}

const resumeToken = "a-token-of-the-client"

func TestSessionLimitOfATenant(t *testing.T) {
	runLimited(t, 2, func(h *harness, gate *tenants.Gate) {
		first, _, _ := h.startOf("s1", resumeToken)
		second, _, _ := h.startOf("s2", resumeToken)
		_, _, e := h.startOf("s3", resumeToken)
		if e == nil || e.Code != wire.RateLimited || e.RetryAfterMS <= 0 || !strings.Contains(e.Detail, "tenant acme has 2 sessions, and its max_sessions is 2") {
			t.Fatalf("the third session: %+v", e)
		}
		h.start() // of another tenant
		// A client that lost the answer repeats its request, and gets its session although its tenant is at the limit.
		if repeated, _, e := h.startOf("s1", resumeToken); e != nil || repeated.Ref() != first.Ref() {
			t.Errorf("the repeated start: %+v", e)
		}
		if _, _, e := h.startOf("s2", "another-token-of-a-client"); e == nil || e.Code != wire.Forbidden {
			t.Errorf("another client: %+v, want that the name is taken", e)
		}
		if n := countedSessions(h, gate); n != 2 {
			t.Errorf("%d sessions are counted, want 2", n)
		}
		second.End()
		if n := countedSessions(h, gate); n != 1 {
			t.Errorf("%d sessions are counted after one has ended, want 1", n)
		}
		if _, _, e := h.startOf("s3", resumeToken); e != nil {
			t.Error(e)
		}
	})
}

// TestSessionsLeaveTheCount: a session that is terminated, or abandoned by its client, is no longer counted.
func TestSessionsLeaveTheCount(t *testing.T) {
	runLimited(t, 9, func(h *harness, gate *tenants.Gate) {
		h.startOf("s1", resumeToken)
		abandoned, _, _ := h.startOf("s2", resumeToken)
		h.registry.TerminateIf(func(i *session.Info) (wire.CloseCode, *wire.Error) {
			if i.Name == "s1" {
				return wire.CloseIdle, wire.Errorf(wire.SessionEndedCode, "it was ended")
			}
			return 0, nil
		})
		if n := countedSessions(h, gate); n != 1 {
			t.Errorf("%d are counted after one was terminated, want 1", n)
		}
		abandoned.Detach()
		time.Sleep(h.cfg.Resume - time.Second)
		if n := countedSessions(h, gate); n != 1 {
			t.Errorf("%d are counted while it can be resumed, want 1", n)
		}
		time.Sleep(2 * time.Second)
		if n := countedSessions(h, gate); n != 0 {
			t.Errorf("%d are counted after its time, want none", n)
		}
	})
}

// renewing runs the renewal of an instance until the returned function is called.
func renewing(h *harness, r *session.Registry) (stop func()) {
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.RenewTenants(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// TestResumedSessionIsTheSame: a session stays counted for as long as it may be resumed after its instance died; on another instance it is the
// same one, and no limit refuses it.
func TestResumedSessionIsTheSame(t *testing.T) {
	runLimited(t, 1, func(h *harness, gate *tenants.Gate) {
		stop := renewing(h, h.registry)
		s, conn, _ := h.startOf("s1", resumeToken)
		for range 6 { // longer than it is counted without renewals
			time.Sleep(15 * time.Second)
			s.Keepalive()
		}
		if n := countedSessions(h, gate); n != 1 {
			t.Fatalf("%d are counted after renewals, want 1", n)
		}
		stop()
		h.replaceInstance()
		if _, _, e := h.startOf("s2", resumeToken); e == nil || e.Code != wire.RateLimited {
			t.Errorf("a session beside the one that may be resumed: %+v", e)
		}
		p := session.ResumeParams{Session: "s1", Tenant: "acme", Token: conn.resumeToken(t)}
		if _, err := h.registry.Resume(h.t.Context(), p, &fakeConn{}); err != nil {
			t.Fatal(err)
		}
		defer renewing(h, h.registry)()
		time.Sleep(2 * tenants.RenewInterval)
		if n := countedSessions(h, gate); n != 1 {
			t.Errorf("%d are counted after the resume, want 1", n)
		}
	})
}

// TestDeadSessionsExpire: the sessions of an instance that died are counted until they can no longer be resumed.
func TestDeadSessionsExpire(t *testing.T) {
	runLimited(t, 1, func(h *harness, gate *tenants.Gate) {
		h.startOf("s1", resumeToken)
		h.replaceInstance()
		time.Sleep(h.cfg.Resume)
		if n := countedSessions(h, gate); n != 1 {
			t.Errorf("%d are counted while it may be resumed, want 1", n)
		}
		time.Sleep(4 * tenants.RenewInterval)
		if _, _, e := h.startOf("s2", resumeToken); e != nil {
			t.Error(e)
		}
	})
}

// TestNewLimitCountsSessions: sessions that run are counted when their tenant gets a limit, also if there are more.
func TestNewLimitCountsSessions(t *testing.T) {
	runLimited(t, 0, func(h *harness, gate *tenants.Gate) {
		defer renewing(h, h.registry)()
		h.startOf("s1", resumeToken)
		h.startOf("s2", resumeToken)
		if n := countedSessions(h, gate); n != 0 {
			t.Errorf("%d are counted without a limit, want none", n)
		}
		gate.Replace(tenants.NewTable(map[core.TenantID]core.TenantLimits{"acme": {Sessions: 1}}))
		time.Sleep(2 * tenants.RenewInterval)
		if n := countedSessions(h, gate); n != 2 {
			t.Errorf("%d are counted, want 2", n)
		}
		if _, _, e := h.startOf("s3", resumeToken); e == nil || e.Code != wire.RateLimited {
			t.Errorf("a third session: %+v", e)
		}
	})
}
