package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/server"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// readyz asks a server whose store answers as ping does.
func readyz(t *testing.T, log *logBook, ping func(context.Context) error) *httptest.ResponseRecorder {
	t.Helper()
	s := server.New(server.Options{
		Metrics: telemetry.New(), Log: slog.New(slog.NewTextHandler(log, nil)), SlowAfter: time.Hour, Ping: ping,
	})
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	return rec
}

// TestPanic in a handler is answered and logged, and takes nobody else with it.
func TestPanic(t *testing.T) {
	t.Parallel()
	log := new(logBook)
	rec := readyz(t, log, func(context.Context) error { panic("the store is on fire") })
	var e wire.Error
	if err := json.Unmarshal(rec.Body.Bytes(), &e); err != nil || rec.Code != http.StatusInternalServerError || e.Code != wire.Internal {
		t.Errorf("want 500 INTERNAL, got %d %s", rec.Code, rec.Body)
	}
	if strings.Contains(rec.Body.String(), "fire") {
		t.Errorf("the answer tells strangers what went wrong inside: %s", rec.Body)
	}
	if text := log.String(); !strings.Contains(text, "fire") || !strings.Contains(text, "guard_test.go") {
		t.Errorf("the log should say what and where:\n%s", text)
	}
}

// TestAbortedHandler is left to net/http, which cuts the connection.
func TestAbortedHandler(t *testing.T) {
	t.Parallel()
	defer func() {
		if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // the very value is what net/http looks for
			t.Errorf("want the abort to go through, got %v", p)
		}
	}()
	readyz(t, new(logBook), func(context.Context) error { panic(http.ErrAbortHandler) })
}

// TestStoreIsAway makes the scheduler unready, for a reason that a person understands.
func TestStoreIsAway(t *testing.T) {
	t.Parallel()
	for reason, err := range map[string]error{
		"the shared store does not answer": errors.New("dial tcp 10.0.0.1:6379: refused"),
		"the shared store is full":         fmt.Errorf("at 10.0.0.1:6379: %w", store.UnavailableError("the shared store is full")),
	} {
		rec := readyz(t, new(logBook), func(context.Context) error { return err })
		if got := strings.TrimSpace(rec.Body.String()); rec.Code != http.StatusServiceUnavailable || got != `{"ready":false,"reason":"`+reason+`"}` {
			t.Errorf("%d %s, want %s", rec.Code, got, reason)
		}
	}
}
