package scheduler_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestRevocationsDuringFailover revokes one session after the other, and kills the primary of Redis meanwhile. Each call is refused, or
// its revocation takes effect on every instance within a second, and is not forgotten, even if the new primary had not received it. The
// second counts from when the instances that have to read it, or to write it again, reach Redis again.
func TestRevocationsDuringFailover(t *testing.T) {
	t.Parallel()
	const sessions, killAt = 30, 10
	redis := redistest.StartSentinel(t)
	cfg := tenantConfig()
	instances := startInstances(t, 2, redis.URL(), cfg, nil)
	stalled := detectStalls(t)
	var open []*watchedSocket
	for i := range sessions {
		open = append(open, openSession(t, instances[i/2%2], "a", fmt.Sprint("s", i)))
	}
	control := openSession(t, instances[1], "b", "s0")

	stalled.TakeDelayed()
	accepted, refused := make([]time.Time, sessions), 0
	down := make([]*atomic.Int64, len(instances)) // when each instance last said that it is not ready
	var killed *redistest.Server
	for i := 0; i < sessions && !t.Failed(); {
		if i == killAt && killed == nil {
			for k, in := range instances {
				down[k] = watchReadiness(t, in)
			}
			killed = redis.KillPrimary()
		}
		status, e := instances[i%2].callOnce(t, "ops", "POST", "/v1/auth/revocations", wire.RevocationRequest{Session: fmt.Sprint("s", i), TenantID: "a"}, nil)
		switch status {
		case http.StatusOK:
			accepted[i] = time.Now()
			i++
		case http.StatusServiceUnavailable:
			refused++
			run.Sleep(t.Context(), 5*time.Millisecond)
		default:
			t.Errorf("the revocation of s%d: %d %v", i, status, e)
		}
	}
	longest := time.Duration(0)
	for i, w := range open {
		select {
		case <-w.closed:
		case <-time.After(waitLimit):
			t.Fatalf("s%d was not closed", i)
		}
		if w.code != websocket.StatusCode(wire.CloseUnauthorized) {
			t.Errorf("s%d was closed with %d", i, w.code)
		}
		since := accepted[i]
		back := down[i/2%2].Load() // its instance could not read the revocation before
		if i < killAt {
			back = max(down[0].Load(), down[1].Load()) // if the new primary lacks it, the instance that accepted it writes it again
		}
		if back := time.Unix(0, back); back.After(since) {
			since = back
		}
		longest = max(longest, w.at.Sub(since))
	}
	t.Logf("%d revocations were accepted and %d refused; all sessions were closed within %v of the answer, or of the return of Redis", sessions, refused, longest)
	if stall := stalled.TakeDelayed(); longest > time.Second+3*stall {
		t.Errorf("a session was closed after %v; this process was delayed for %v", longest, stall)
	}
	if err := control.conn.Ping(t.Context()); err != nil {
		t.Errorf("a session that was not revoked: %v", err)
	}

	redis.WaitHealthy(waitLimit)
	killed.Restart()
	redis.WaitHealthy(waitLimit)
	later := startInstances(t, 1, redis.URL(), cfg, nil)[0]
	waitUntil(t, "every revocation to be in the store", waitLimit, func() bool {
		var list wire.RevocationList
		status, _ := later.callOnce(t, "ops", "GET", "/v1/auth/revocations", nil, &list)
		return status == http.StatusOK && len(list.Revocations) == sessions
	})
}

// watchReadiness asks an instance again and again whether it is ready, until the test ends, and returns when it last was not.
func watchReadiness(t *testing.T, in *instance) *atomic.Int64 {
	t.Helper()
	var down atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for run.Sleep(ctx, 10*time.Millisecond) {
			if err := in.peer.Get(ctx, "/readyz", new(wire.ReadyResponse)); err != nil && ctx.Err() == nil {
				down.Store(time.Now().UnixNano())
			}
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	return &down
}
