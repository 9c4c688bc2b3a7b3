package scheduler_test

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
)

func within(seconds config.Seconds) func(*config.Config) {
	return func(c *config.Config) { c.Server.ShutdownSeconds = seconds }
}

// TestShutdown lets a job in flight end: the scheduler is unready at once, takes nothing new, still hears what
// nodes say, and goes when the job has ended.
func TestShutdown(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	a := r.job("req-1")
	r.post(http.StatusOK, "/v1/job/ack", report(a))
	r.get(http.StatusOK, "/readyz")

	r.stop()
	r.unready()
	refusal := r.post(http.StatusServiceUnavailable, "/v1/dispatch/f2f", utterance("req-2"))
	if refusal["error"] != "ALL_CANDIDATES_FULL_OR_FAILED" || !strings.Contains(refusal["detail"].(string), "shutting down") {
		t.Errorf("the refusal should say why: %v", refusal)
	}
	if again := r.post(http.StatusOK, "/v1/dispatch/f2f", utterance("req-1")); again["job_id"] != a.JobID {
		t.Errorf("a request that was granted before is answered as before, not %v", again)
	}
	r.get(http.StatusOK, "/healthz")
	r.post(http.StatusOK, "/v1/node/heartbeat", map[string]any{"node_id": "n1", "active": []any{map[string]any{"job_id": a.JobID, "attempt_id": 1}}})
	if job := r.get(http.StatusOK, "/v1/jobs/"+a.JobID); job["state"] != "ACKED" {
		t.Errorf("want ACKED, got %v", job)
	}
	r.serving()

	r.post(http.StatusOK, "/v1/job/done", report(a))
	if err := r.end(); err != nil {
		t.Errorf("it did not end well: %v", err)
	}
	if conn, err := net.Dial("tcp", r.listener.Addr().String()); err == nil {
		_ = conn.Close()
		t.Error("the port is still open")
	}
	r.eventually("no connection to the node is left", func() bool { return r.lines.Load() == 0 })
}

// TestShutdownIsAnnounced at once: the others need not wait for the next renewal to see that this instance is draining.
func TestShutdownIsAnnounced(t *testing.T) {
	t.Parallel()
	r := start(t, nil, func(c *config.Config) { c.Scheduler.Phase2.HeartbeatTTLSeconds = 3600 })
	a := r.job("req-1")
	r.stop()
	r.eventually("it says that it is draining", func() bool {
		peers, err := r.s.Bus.Peers(t.Context())
		if err != nil || len(peers) != 1 {
			t.Fatalf("%+v, %v", peers, err)
		}
		return peers[0].Draining
	})
	r.post(http.StatusOK, "/v1/job/done", report(a))
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

// TestShutdownRetries still gives a job to another node when the one that has it gives it up.
func TestShutdownRetries(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.post(http.StatusOK, "/v1/node/register", map[string]any{
		"node_id": "n2", "semantic_langs": []string{"en", "zh"}, "max_concurrent_jobs": 2, "callback_url": r.node.URL,
	})
	first := r.job("req-1")
	r.stop()
	r.unready()
	r.post(http.StatusOK, "/v1/job/fail", report(first))
	second := r.delivery()
	if second.JobID != first.JobID || second.AttemptID != 2 || second.NodeID == first.NodeID {
		t.Errorf("want attempt 2 on the other node, got %+v", second)
	}
	r.serving()
	r.post(http.StatusOK, "/v1/job/done", report(second))
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

// TestShutdownDeadline goes although a job does not end.
func TestShutdownDeadline(t *testing.T) {
	t.Parallel()
	const deadline = 1 // second
	r := start(t, nil, within(deadline))
	a := r.job("req-1")
	r.post(http.StatusOK, "/v1/job/ack", report(a))
	began := time.Now()
	r.stop()
	r.unready()
	if err := r.end(); err != nil {
		t.Errorf("it did not end well: %v", err)
	}
	took := time.Since(began)
	if took < deadline*time.Second || took > (deadline+5)*time.Second {
		t.Errorf("it took %s, with a deadline of %d s and a job that does not end", took, deadline)
	}
}

// TestShutdownWhileDelivering goes although a node holds a delivery, and somebody waits for it.
func TestShutdownWhileDelivering(t *testing.T) {
	t.Parallel()
	r := start(t, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }, within(0))
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		resp, err := r.client.Post(r.url+"/v1/dispatch/f2f", "application/json", strings.NewReader(`{"session_id":"s","src_lang":"en","tgt_lang":"zh"}`))
		if err == nil {
			_ = resp.Body.Close()
		}
	}()
	r.delivery()
	r.stop()
	if err := r.end(); err != nil {
		t.Error(err)
	}
	<-asked
}

// TestShutdownOfIdleScheduler waits for nothing, although the time it may take is long and connections are
// kept alive.
func TestShutdownOfIdleScheduler(t *testing.T) {
	t.Parallel()
	r := start(t, nil, within(3600))
	a := r.job("req-1")
	r.post(http.StatusOK, "/v1/job/done", report(a))
	r.stop()
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

// TestPortIsTaken says what to do about it.
func TestPortIsTaken(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	defer func() {
		r.stop()
		_ = r.end()
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

// TestListenerFails ends Run with an error, and everything with it.
func TestListenerFails(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	_ = r.listener.Close()
	if err := r.end(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("want the listener's error, got %v", err)
	}
}
