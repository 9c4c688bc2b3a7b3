package redisstore_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// openWithHealth opens a store and returns the values passed to OnHealth.
func openWithHealth(t *testing.T, r *redistest.Server, timeout time.Duration) (*redisstore.Store, <-chan bool) {
	t.Helper()
	health := make(chan bool, 64)
	s := open(t, r.URL(), func(o *redisstore.Options) { o.Timeout, o.OnHealth = timeout, func(up bool) { health <- up } })
	return s, health
}

func wantHealth(t *testing.T, health <-chan bool, want bool) {
	t.Helper()
	select {
	case up := <-health:
		if up != want {
			t.Fatalf("OnHealth(%v), want %v", up, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("OnHealth(%v) was never called", want)
	}
}

// TestCancelledCallsDoNotHideOutage: calls that are cancelled during an outage are no evidence that Redis answers.
func TestCancelledCallsDoNotHideOutage(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s, health := openWithHealth(t, r, time.Second)
	r.Stop()
	defer r.Continue()
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				_, _ = s.Get(ctx, "job-1")
				cancel()
				_, _ = s.Get(t.Context(), "job-1")
			}
		})
	}
	wantHealth(t, health, false)
	close(done)
	wg.Wait()
}

// TestExpiredCallsDoNotOpenBreaker: calls whose deadline is over before Redis could answer are no evidence against Redis.
func TestExpiredCallsDoNotOpenBreaker(t *testing.T) {
	t.Parallel()
	s, health := openWithHealth(t, redistest.Start(t), callTimeout)
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for range 50 {
		if _, err := s.Get(expired, "job-1"); err == nil || errors.Is(err, store.ErrDown) {
			t.Fatalf("a call past its deadline: %v", err)
		}
	}
	if _, err := s.Get(t.Context(), "job-1"); !errors.Is(err, store.ErrNoJob) {
		t.Errorf("a call with time left: %v", err)
	}
	select {
	case <-health:
		t.Error("OnHealth was called")
	default:
	}
}

// TestRecoveryOfFullRedis: the next heartbeats find that a full Redis accepts writes again.
func TestRecoveryOfFullRedis(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s, health := openWithHealth(t, r, callTimeout)
	n, err := s.Register(t.Context(), store.RegisterParams{Node: core.Node{ID: "node-a", Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	heartbeat := func() error {
		_, err := s.Heartbeat(t.Context(), store.HeartbeatParams{Node: "node-a", Known: n.Node})
		return err
	}
	limit := func(bytes string) {
		if _, err := r.Do("CONFIG", "SET", "maxmemory", bytes); err != nil {
			t.Fatal(err)
		}
	}
	limit("1")
	if err := heartbeat(); !errors.Is(err, store.ErrDown) {
		t.Fatalf("a heartbeat to a full Redis: %v", err)
	}
	wantHealth(t, health, false)
	limit("0")
	if err := heartbeat(); err != nil {
		t.Fatal(err)
	}
	wantHealth(t, health, true)
}

// TestOpenBreakerError: while the breaker is open, the error says in plain words that Redis is not called.
func TestOpenBreakerError(t *testing.T) {
	t.Parallel()
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr())
	address, err := redisstore.ParseAddress(proxy.URL())
	if err != nil {
		t.Fatal(err)
	}
	s, err := redisstore.Open(t.Context(), redisstore.Options{
		Address: address, Prefix: "test", Timing: timing, Timeout: callTimeout, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	proxy.Refuse(true)
	for range 1000 {
		if err = s.Ping(t.Context()); errors.Is(err, store.ErrBreakerOpen) {
			break
		}
	}
	if !errors.Is(err, store.ErrDown) || !errors.Is(err, store.ErrBreakerOpen) || strings.Contains(err.Error(), "circuit") {
		t.Errorf("%v", err)
	}
}
