package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
		"single-instance.toml":   nil,
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
