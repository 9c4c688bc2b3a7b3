package server_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/server"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// TestReadinessChecksAreShared: anybody may ask /readyz, so however many ask, the store is asked four times a second at most.
func TestReadinessChecksAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var pings atomic.Int64
		var down atomic.Bool
		s := server.New(server.Options{
			Metrics: telemetry.New(), Log: slog.New(slog.DiscardHandler), SlowAfter: time.Hour,
			Ping: func(ctx context.Context) error {
				pings.Add(1)
				select {
				case <-time.After(10 * time.Millisecond): // a round trip
				case <-ctx.Done():
					return ctx.Err()
				}
				if down.Load() {
					return errors.New("away")
				}
				return nil
			},
		})
		ask := func(ctx context.Context) int {
			rec := httptest.NewRecorder()
			s.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil))
			return rec.Code
		}
		// Whoever began the check leaves: the others still get its answer.
		leaving, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { ask(leaving) })
		synctest.Wait()
		leave()
		for range 1000 {
			all.Go(func() {
				if got := ask(t.Context()); got != http.StatusOK {
					t.Errorf("ready: %d", got)
				}
			})
		}
		all.Wait()
		if n := pings.Load(); n != 1 {
			t.Errorf("the store was asked %d times for a thousand callers", n)
		}
		down.Store(true)
		time.Sleep(250 * time.Millisecond)
		for range 10 {
			if got := ask(t.Context()); got != http.StatusServiceUnavailable {
				t.Errorf("250 ms after the store went away: %d", got)
			}
		}
		if n := pings.Load(); n != 2 {
			t.Errorf("a store that is away was asked %d times by ten callers", n-1)
		}
	})
}

// TestReadyMeansComplete: an instance that does not know every node yet is not ready.
func TestReadyMeansComplete(t *testing.T) {
	t.Parallel()
	partial := true
	s := server.New(server.Options{
		Metrics: telemetry.New(), Log: slog.New(slog.DiscardHandler), SlowAfter: time.Hour,
		Ping: func(context.Context) error { return nil }, Partial: func() bool { return partial },
	})
	ask := func() *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return rec
	}
	if rec := ask(); rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), "does not know every node") {
		t.Errorf("before the fleet was read: %d %s", rec.Code, rec.Body)
	}
	partial = false
	if rec := ask(); rec.Code != http.StatusOK {
		t.Errorf("after it was: %d %s", rec.Code, rec.Body)
	}
}
