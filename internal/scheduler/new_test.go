package scheduler_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/wire"
)

func newScheduler(t *testing.T, cfg config.Config) *scheduler.Scheduler {
	t.Helper()
	return newSchedulerWith(t, cfg, nil)
}

func newSchedulerWith(t *testing.T, cfg config.Config, transport dispatch.Transport) *scheduler.Scheduler {
	t.Helper()
	s, err := scheduler.New(t.Context(), cfg, wire.VersionResponse{}, slog.New(slog.DiscardHandler), transport)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestNewStartsNothing makes a scheduler and forgets it: the check for goroutines at the end of the tests
// would find what it started.
func TestNewStartsNothing(t *testing.T) {
	t.Parallel()
	newScheduler(t, config.Default())
}

// TestNewRefusesWhatCannotBe names the key that is wrong.
func TestNewRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Callback.AllowedTargets = []string{"everywhere"}
	_, err := scheduler.New(t.Context(), cfg, wire.VersionResponse{}, slog.New(slog.DiscardHandler), nil)
	if err == nil || !strings.Contains(err.Error(), "callback.allowed_targets") {
		t.Errorf("want the key named, got %v", err)
	}
}
