package scheduler_test

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

func withShutdown(seconds config.Seconds) func(*config.Config) {
	return func(c *config.Config) { c.Server.ShutdownSeconds = seconds }
}

// TestShutdownWaitsForInFlightJob: the scheduler is not ready at once, refuses new jobs, still takes reports of
// nodes, and ends when the job has ended.
func TestShutdownWaitsForInFlightJob(t *testing.T) {
	t.Parallel()
	r := startInstance(t, nil)
	a := r.dispatchJob("req-1")
	r.post(http.StatusOK, "/v1/job/ack", reportBody(a))
	r.get(http.StatusOK, "/readyz")

	r.stop()
	r.awaitUnready()
	r.awaitLeaving()
	refusal := r.post(http.StatusServiceUnavailable, "/v1/dispatch/f2f", dispatchBody("req-2"))
	if refusal["error"] != "ALL_CANDIDATES_FULL_OR_FAILED" || !strings.Contains(refusal["detail"].(string), "shutting down") {
		t.Errorf("the refusal does not say why: %v", refusal)
	}
	if again := r.post(http.StatusOK, "/v1/dispatch/f2f", dispatchBody("req-1")); again["job_id"] != a.JobID {
		t.Errorf("the repeat of an accepted request got %v", again)
	}
	r.get(http.StatusOK, "/healthz")
	r.post(http.StatusOK, "/v1/node/heartbeat", map[string]any{"node_id": "n1", "active": []any{map[string]any{"job_id": a.JobID, "attempt_id": 1}}})
	if job := r.get(http.StatusOK, "/v1/jobs/"+a.JobID); job["state"] != "ACKED" {
		t.Errorf("want ACKED, got %v", job)
	}
	r.wantRunning()

	r.post(http.StatusOK, "/v1/job/done", reportBody(a))
	if err := r.awaitEnd(); err != nil {
		t.Errorf("Run returned %v", err)
	}
	// A connection could succeed: to another test at this port, or to a copy of the socket in a process that another test is starting.
	if err := r.listener.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the port is still open: %v", err)
	}
	waitUntil(r.t, "all connections to the node to be closed", waitLimit, func() bool { return r.nodeConns.Load() == 0 })
}

// TestDispatchesUntilBalancersHaveNoticed: an instance that stops beside others is not ready at once, and refuses dispatches only after a delay,
// within which a load balancer has noticed.
func TestDispatchesUntilBalancersHaveNoticed(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	cfg := config.Default()
	cfg.Store = redis.URL()
	other := startInstances(t, 1, redis.URL(), cfg, nil)[0]
	r := startInstance(t, nil, func(c *config.Config) { c.Store, c.Server.DrainDelayMS = redis.URL(), 5000 })
	r.stop()
	r.awaitUnready()
	a := r.dispatchJob("during")
	r.post(http.StatusOK, "/v1/job/ack", reportBody(a))
	waitUntil(t, "it to announce that it is draining", waitLimit, func() bool {
		peers, err := other.Bus.Peers(t.Context())
		return err == nil && slices.ContainsFunc(peers, func(p bus.Peer) bool { return p.Draining })
	})
	waitUntil(t, "it to record that it stops", waitLimit, func() bool {
		var list wire.EventList
		return other.peer.Get(t.Context(), "/v1/events?kind=instance_stopping", &list) == nil && len(list.Events) > 0
	})
	r.post(http.StatusServiceUnavailable, "/v1/dispatch/f2f", dispatchBody("after"))
	r.post(http.StatusOK, "/v1/job/done", reportBody(a))
	if err := r.awaitEnd(); err != nil {
		t.Error(err)
	}
}

// TestShutdownIsAnnouncedAtOnce: other instances need not wait for the next renewal to see that this one is draining.
func TestShutdownIsAnnouncedAtOnce(t *testing.T) {
	t.Parallel()
	r := startInstance(t, nil, func(c *config.Config) { c.Scheduler.Phase2.HeartbeatTTLSeconds = 3600 })
	a := r.dispatchJob("req-1")
	r.stop()
	waitUntil(r.t, "it to announce that it is draining", waitLimit, func() bool {
		peers, err := r.scheduler.Bus.Peers(t.Context())
		if err != nil || len(peers) != 1 {
			t.Fatalf("%+v, %v", peers, err)
		}
		return peers[0].Draining
	})
	r.post(http.StatusOK, "/v1/job/done", reportBody(a))
	if err := r.awaitEnd(); err != nil {
		t.Error(err)
	}
}

// TestRetryDuringShutdown: a job whose node fails is still given to another node.
func TestRetryDuringShutdown(t *testing.T) {
	t.Parallel()
	r := startInstance(t, nil)
	r.post(http.StatusOK, "/v1/node/register", map[string]any{
		"node_id": "n2", "semantic_langs": []string{"en", "zh"}, "max_concurrent_jobs": 2, "callback_url": r.node.URL,
	})
	first := r.dispatchJob("req-1")
	r.stop()
	r.awaitUnready()
	r.post(http.StatusOK, "/v1/job/fail", reportBody(first))
	second := r.awaitDelivery()
	if second.JobID != first.JobID || second.AttemptID != 2 || second.NodeID == first.NodeID {
		t.Errorf("want attempt 2 on the other node, got %+v", second)
	}
	r.wantRunning()
	r.post(http.StatusOK, "/v1/job/done", reportBody(second))
	if err := r.awaitEnd(); err != nil {
		t.Error(err)
	}
}

// TestShutdownEndsAtItsDeadline: although a job does not end.
func TestShutdownEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	const deadline = 1 // second
	r := startInstance(t, nil, withShutdown(deadline))
	a := r.dispatchJob("req-1")
	r.post(http.StatusOK, "/v1/job/ack", reportBody(a))
	began := time.Now()
	r.stop()
	if err := r.awaitEnd(); err != nil {
		t.Errorf("Run returned %v", err)
	}
	took := time.Since(began)
	if took < deadline*time.Second || took > (deadline+5)*time.Second {
		t.Errorf("it took %s, want the deadline of %d s", took, deadline)
	}
}

// TestShutdownDuringDelivery: Run returns although a node does not answer a delivery and a client waits for it.
func TestShutdownDuringDelivery(t *testing.T) {
	t.Parallel()
	r := startInstance(t, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }, withShutdown(0))
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		resp, err := r.client.Post(r.url+"/v1/dispatch/f2f", "application/json", strings.NewReader(`{"session_id":"s","src_lang":"en","tgt_lang":"zh"}`))
		if err == nil {
			_ = resp.Body.Close()
		}
	}()
	r.awaitDelivery()
	r.stop()
	if err := r.awaitEnd(); err != nil {
		t.Error(err)
	}
	<-asked
}

// TestShutdownOfIdleInstance: it ends at once, although its deadline is late and connections are
// kept alive.
func TestShutdownOfIdleInstance(t *testing.T) {
	t.Parallel()
	r := startInstance(t, nil, withShutdown(3600))
	a := r.dispatchJob("req-1")
	r.post(http.StatusOK, "/v1/job/done", reportBody(a))
	r.stop()
	if err := r.awaitEnd(); err != nil {
		t.Error(err)
	}
}

// TestListenOnTakenPort returns an error.
func TestListenOnTakenPort(t *testing.T) {
	t.Parallel()
	r := startInstance(t, nil)
	defer func() {
		r.stop()
		_ = r.awaitEnd()
	}()
	taken := r.listener.Addr().(*net.TCPAddr).Port
	cfg := config.Default()
	cfg.Server.Port = taken
	other := newScheduler(t, cfg)
	if l, err := other.Listen(t.Context()); err == nil {
		_ = l.Close()
		t.Error("two schedulers listen on one port")
	} else if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("want address in use, got %q", err)
	}
}

// TestRunEndsWithListenerError: everything ends with it.
func TestRunEndsWithListenerError(t *testing.T) {
	t.Parallel()
	r := startInstance(t, nil)
	_ = r.listener.Close()
	if err := r.awaitEnd(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("want the listener's error, got %v", err)
	}
}

// A session that is still connected when its instance stops is served; new sessions are refused.
func TestSessionIsServedWhileItsInstanceLeaves(t *testing.T) {
	t.Parallel()
	r := startInstance(t, nil)
	s := dialSession(t, r.url, wire.SessionStart{Langs: []string{"en", "zh"}})
	s.Await(&wire.SessionStarted{})
	r.stop()
	s.Await(&wire.GoAway{})
	s.Send(wire.AudioChunk{Data: tone(100), IsFinal: true})
	a := r.awaitDelivery()
	r.post(http.StatusOK, "/v1/job/ack", reportBody(a))
	r.post(http.StatusOK, "/v1/job/done", reportBody(a))
	var got wire.SessionResult
	s.Await(&got)
	if got.JobID != a.JobID {
		t.Errorf("the result is of %s, want %s", got.JobID, a.JobID)
	}
	late := dialSession(t, r.url, wire.SessionStart{Langs: []string{"en", "zh"}})
	var e wire.ErrorFrame
	late.Await(&e)
	if e.Code != wire.AllCandidatesFullOrFailed || e.RetryAfterMS == 0 {
		t.Errorf("a new session: %+v", e)
	}
	_ = late.CloseNow() // or the instance would wait for the answer to its close frame
	_ = s.CloseNow()
	if err := r.awaitEnd(); err != nil {
		t.Error(err)
	}
}
