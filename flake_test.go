package lingua_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFlakeResumes checks that `make flake` finds a flaky test and resumes at the round that failed.
func TestFlakeResumes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/flaky\n\ngo 1.26.0\n",
		"flaky_test.go": `package flaky

import (
	"os"
	"testing"
)

// TestThirdTime fails in its third run and records each.
func TestThirdTime(t *testing.T) {
	runs, _ := os.ReadFile("runs")
	if err := os.WriteFile("runs", append(runs, '.'), 0o600); err != nil {
		t.Fatal(err)
	}
	if len(runs) == 2 {
		t.Fatal("the third time")
	}
}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script, err := filepath.Abs("tools/flake.sh")
	if err != nil {
		t.Fatal(err)
	}
	flake := func() (string, error) {
		run := exec.CommandContext(t.Context(), script, "./...")
		run.Dir = dir
		run.Env = append(os.Environ(), "ROUNDS=4", "STATE="+filepath.Join(dir, "state"))
		out, err := run.CombinedOutput()
		return string(out), err
	}
	if out, err := flake(); err == nil || !strings.Contains(out, "FAIL example.com/flaky, round 3 of 4") || !strings.Contains(out, "-test.shuffle") {
		t.Errorf("the first run: %v, want a failure in round 3 with the seed of its order:\n%s", err, out)
	}
	if out, err := flake(); err != nil || strings.Contains(out, "round 2 of 4") || !strings.Contains(out, "round 4 of 4") {
		t.Errorf("the second run: %v, want rounds 3 and 4 only:\n%s", err, out)
	}
	if runs, err := os.ReadFile(filepath.Join(dir, "runs")); err != nil || len(runs) != 5 {
		t.Errorf("the test ran %d times (%v), want 3 and then 2", len(runs), err)
	}
}
