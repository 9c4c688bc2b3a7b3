package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// TestSamplesOfTheDesignLoad: every sample in the documents that this scheduler was designed from loads, with a warning for each
// value that is not used as it is. The samples have no credentials, which an instance on every interface needs: the environment
// gives them.
func TestSamplesOfTheDesignLoad(t *testing.T) {
	t.Parallel()
	keys := []string{
		"LINGUA_AUTH_OPERATOR_KEYS=0123456789abcdef", "LINGUA_AUTH_SESSION_SECRET=0123456789abcdef0123456789abcdef",
		"LINGUA_CALLBACK_ALLOWED_TARGETS=10.0.0.0/8", // which keys require for HTTP nodes
	}
	want := map[string][]string{ // the beginning of each warning
		"several-instances.toml": {"scheduler.phase2.owner_ttl_seconds: has no effect", "scheduler.phase2.heartbeat_ttl_seconds: 180 counts as 60"},
		"dispatch.toml":          {"scheduler.dispatch.health_filter: has no effect", "scheduler.dispatch.reservation_ttl_ms: 5000 counts as scheduler.task_binding.reserved_ttl_seconds = 5"},
	}
	files, err := filepath.Glob("testdata/*.toml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d samples, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			c, warnings, err := Load(file, keys).Validate()
			if err != nil {
				t.Fatal(err)
			}
			for i := range warnings {
				warnings[i] = strings.TrimPrefix(warnings[i], file+": ")
			}
			if !slices.EqualFunc(warnings, want[filepath.Base(file)], strings.HasPrefix) {
				t.Errorf("warnings: %q", warnings)
			}
			if ttl := c.Scheduler.Phase2.HeartbeatTTLSeconds; ttl > 60 {
				t.Errorf("an instance counts as present for %d s", ttl)
			}
			if shared := strings.Contains(file, "single-instance") || strings.Contains(file, "dispatch"); shared == c.Scheduler.Phase2.Enabled {
				t.Error("phase2.enabled was not read")
			}
		})
	}
}

// TestReservationTTL: the lifetime of reservations in milliseconds is rounded up to seconds, and our own key wins.
func TestReservationTTL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Seconds{
		"[scheduler.dispatch]\nreservation_ttl_ms = 2001":                                                     3,
		"[scheduler.dispatch]\nreservation_ttl_ms = 8000":                                                     8,
		"[scheduler.dispatch]\nreservation_ttl_ms = 8000\n[scheduler.task_binding]\nreserved_ttl_seconds = 4": 4,
	} {
		file := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, warnings, err := Load(file, nil).Validate()
		if err != nil || c.Scheduler.TaskBinding.ReservedTTLSeconds != want || len(warnings) != 1 {
			t.Errorf("%q: %d s, %q, %v", text, c.Scheduler.TaskBinding.ReservedTTLSeconds, warnings, err)
		}
	}
	file := filepath.Join(t.TempDir(), "config.toml")
	for _, value := range []string{`"5s"`, "-1", "0", "5.5"} {
		if err := os.WriteFile(file, []byte("[scheduler.dispatch]\nreservation_ttl_ms = "+value), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Load(file, nil).Validate(); err == nil || !strings.Contains(err.Error(), "reservation_ttl_ms") {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// TestNumberedPools: a number is the id of a pool.
func TestNumberedPools(t *testing.T) {
	t.Parallel()
	c, _, err := Load("testdata/dispatch-pools.toml", nil).Validate()
	if err != nil {
		t.Fatal(err)
	}
	d := c.Scheduler.Phase3.Division()
	if !slices.Equal(d.IDs(), []core.PoolID{"1", "2"}) || d.Overrides["acme"] != "2" {
		t.Errorf("%+v", d)
	}
}

// TestUnusedVariables: a variable for a key that has no effect is a warning, as the key is.
func TestUnusedVariables(t *testing.T) {
	t.Parallel()
	_, warnings, err := Load("", []string{"LINGUA_SCHEDULER_PHASE2_OWNER_TTL_SECONDS=300", "LINGUA_SCHEDULER_PHASE2_HEARTBEAT_TTL_SECONDS=61"}).Validate()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"LINGUA_SCHEDULER_PHASE2_OWNER_TTL_SECONDS: has no effect", "LINGUA_SCHEDULER_PHASE2_HEARTBEAT_TTL_SECONDS: 61 counts as 60"}
	if !slices.EqualFunc(warnings, want, strings.HasPrefix) {
		t.Errorf("warnings: %q", warnings)
	}
}
