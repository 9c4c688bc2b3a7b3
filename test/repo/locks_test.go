package repo_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// documentedLocks returns the names of the timed locks in docs/locks.md, in its order.
func documentedLocks(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("docs/locks.md")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile("`([a-z_]+)`")
	var names []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		if len(cells) != 4 {
			t.Errorf("the row %q has %d cells, want 4", strings.TrimSpace(line), len(cells))
			continue
		}
		for _, m := range name.FindAllStringSubmatch(cells[3], -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// TestTimedLocksAreListed checks that docs/locks.md lists the names of the timed locks, and no other names, and that each is given once.
func TestTimedLocksAreListed(t *testing.T) {
	t.Parallel()
	made := regexp.MustCompile(`\bNew(?:RW)?Mutex\("(\w+)"\)`)
	var used []string
	goFiles(t, func(file, _ string) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		for _, m := range made.FindAllStringSubmatch(string(text), -1) {
			used = append(used, m[1])
		}
	})
	documented := documentedLocks(t)
	slices.Sort(documented)
	slices.Sort(used)
	if diff := cmp.Diff(used, documented); diff != "" {
		t.Errorf("names of locks in the sources and in docs/locks.md (-used +documented):\n%s", diff)
	}
	if unique := slices.Compact(slices.Clone(used)); len(unique) != len(used) {
		t.Errorf("a name is given to two locks: %v", used)
	}
}

// untimed are the packages of the scheduler, and the files of others, whose locks are not on the path of a job, a session or a node. The
// locks of telemetry are taken by the observer of the others.
var untimed = []string{
	"internal/journal/", "internal/telemetry/", "internal/revocation/", "internal/pools/", "internal/config/", "internal/auth/", "internal/scheduler/store.go",
	"internal/stats/generator.go", "internal/server/status.go", "internal/server/peerlists.go", "internal/server/storestatus.go", "internal/nodes/silent.go", "internal/dispatch/lost.go", "internal/nodes/directionlists.go",
	// Not part of a running scheduler.
	"internal/lab/", "internal/lab/", "test/clustertest/", "test/redistest/", "test/stalltest/", "test/", "internal/health/", "test/storetest/",
	"internal/run/", "test/otlptest/", "cmd/lingua/", "node/", "client/", "bench/", "examples/", "deploy/",
}

// TestLocksOfPathsAreTimed checks that no lock of the scheduler is a plain one, except those that are known to be on no path.
func TestLocksOfPathsAreTimed(t *testing.T) {
	t.Parallel()
	plain := regexp.MustCompile(`\bsync\.(RW)?Mutex\b`)
	goFiles(t, func(file, _ string) {
		if strings.HasSuffix(file, "_test.go") || slices.ContainsFunc(untimed, func(p string) bool { return strings.HasPrefix(file, p) }) {
			return
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		if plain.Match(text) {
			t.Errorf("%s has a sync.Mutex: use run.Mutex and list it in docs/locks.md, or add it to untimed", file)
		}
	})
}
