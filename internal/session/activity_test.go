package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// activity returns what the only session does.
func (h *harness) activity() session.Activity {
	h.t.Helper()
	list := h.registry.List()
	if len(list) != 1 {
		h.t.Fatalf("%d sessions, want 1", len(list))
	}
	return list[0].Activity
}

// TestActivity follows a session through an utterance, its result, a reconnection and a takeover.
func TestActivity(t *testing.T) {
	run(t, func(h *harness) {
		conn := &fakeConn{}
		s, err := h.registry.Start(t.Context(), session.StartParams{
			ID: "s1", Remote: "192.0.2.7", Langs: [2]core.Lang{"en", "es"}, Request: &wire.SessionStart{},
		}, conn)
		if err != nil {
			t.Fatal(err)
		}
		conn.setConnection(s)
		began := time.Now()
		if a := h.activity(); a != (session.Activity{Remote: "192.0.2.7", LastActive: began}) {
			t.Errorf("at the start: %+v", a)
		}
		h.stream(s, tone(500))
		if a := h.activity(); !a.Speaking || !a.LastActive.After(began) || a.Results != 0 {
			t.Errorf("while somebody speaks: %+v", a)
		}
		h.send(s, session.AudioFrame{Final: true})
		if h.activity().Speaking {
			t.Error("the utterance was committed, and somebody speaks")
		}
		time.Sleep(2 * time.Second)
		h.endJob(200*time.Millisecond, time.Second)
		want := telemetry.Lag{Dispatch: 200 * time.Millisecond, Node: time.Second, Return: 800 * time.Millisecond}
		if a := h.activity(); a.LastLag != want || a.LagP95 != want.Total() || a.Results != 1 {
			t.Errorf("after the result: %+v", a)
		}

		h.stream(s, tone(300))
		s.Detach()
		if a := h.activity(); a.Speaking || a.Reconnects != 0 {
			t.Errorf("without a connection: %+v", a)
		}
		for i, remote := range []string{"192.0.2.8", "192.0.2.9"} {
			_, err := h.registry.Resume(t.Context(), session.ResumeParams{Session: "s1", Remote: remote, Token: conn.resumeToken(t)}, &fakeConn{})
			if err != nil {
				t.Fatal(err)
			}
			if a := h.activity(); a.Remote != remote || a.Reconnects != int64(i+1) || !a.Speaking {
				t.Errorf("over another connection: %+v", a)
			}
		}
	})
}

// TestReconnectsAreSaved checks that another instance continues to count how often a session was resumed.
func TestReconnectsAreSaved(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		token := conn.resumeToken(t)
		s.Detach()
		resumed, _, err := h.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		h.commit(resumed)
		synctest.Wait()
		h.replaceInstance()
		if _, _, err := h.resume(s, token, 0); err != nil {
			t.Fatal(err)
		}
		if a := h.activity(); a.Reconnects != 2 || a.Results != 0 {
			t.Errorf("on another instance: %+v", a)
		}
	})
}

// TestLagOfRecentResults checks the percentile of the lag: results that are long ago do not count.
func TestLagOfRecentResults(t *testing.T) {
	run(t, func(h *harness) {
		s, _ := h.start()
		send := func(lag time.Duration) {
			t.Helper()
			id := h.commit(s)
			time.Sleep(lag)
			h.complete(id, "a")
			synctest.Wait()
		}
		send(5 * time.Second)
		for range 19 {
			send(time.Second)
		}
		if a := h.activity(); a.Results != 20 || a.LagP95 > 2*time.Second {
			t.Errorf("one of 20 was slow: %+v", a)
		}
		send(5 * time.Second)
		if a := h.activity(); a.LagP95 < 4*time.Second || a.LastLag.Total() < 4*time.Second {
			t.Errorf("two of 21 were slow: %+v", a)
		}
		for range 32 {
			send(time.Second)
		}
		if a := h.activity(); a.Results != 32 || a.LagP95 > 2*time.Second {
			t.Errorf("none of the last 32 was slow: %+v", a)
		}
	})
}
