package redisstore_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

// TestWhoIsNotAsked: while nobody is let through to Redis, that is what is said, in words for who reads a log.
func TestWhoIsNotAsked(t *testing.T) {
	t.Parallel()
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr())
	address, err := redisstore.ParseAddress(proxy.URL())
	if err != nil {
		t.Fatal(err)
	}
	s, err := redisstore.Open(t.Context(), redisstore.Options{
		Address: address, Prefix: "test", Timing: timing, Timeout: 2 * time.Second, Log: slog.New(slog.DiscardHandler),
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
