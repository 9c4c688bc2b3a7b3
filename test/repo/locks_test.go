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
func documentedLocks(t *testing.T) (names []string) {
	t.Helper()
	for _, row := range readPage(t, "docs/locks.md").Table("locks") {
		if len(row) != 4 {
			t.Errorf("the row %q has %d cells, want 4", row, len(row))
			continue
		}
		for name := range strings.SplitSeq(row[3], ", ") {
			if name != "" {
				names = append(names, strings.Trim(name, "`"))
			}
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
	"internal/lab/", "internal/run/", "cmd/lingua/", "node/", "client/", "test/", "bench/", "examples/", "deploy/",
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
