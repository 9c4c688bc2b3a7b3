package drill

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/lingua-scheduler/lingua/test/clustertest"
)

// mutant is a change of the source that breaks a guarantee, and the drill that must detect it.
type mutant struct {
	edits []edit
	drill drill
	want  string // the kind of violation
}

// edit replaces a pattern in the files of a directory. The pattern must match exactly count times in all files together: a
// mutant whose source has changed fails with a clear message, and does not pass unnoticed.
type edit struct {
	files       string // a glob, relative to the root of the repository
	pattern     string // a regular expression
	replacement string // may use the groups of the pattern
	count       int
}

const (
	luaScripts   = "internal/store/redisstore/scripts/*.lua"
	dispatchCode = "internal/dispatch/*.go"
)

var mutants = map[string]mutant{
	"former-owner-writes-session-state": {
		edits: []edit{{luaScripts, `if not held then return \{ now, 0 \} end`, ``, 1}},
		drill: drill{timeouts: resumableTimeouts, faults: []fault{stopInstanceFault()}}, want: supersededWrite,
	},
	"late-writes-are-accepted": {
		edits: []edit{
			{luaScripts, `return not_after > 0 and now > not_after`, `return false`, 1},
			{luaScripts, `if now > tonumber\(ARGV\[1\]\) and ARGV\[1\] ~= '0' then return \{ now \} end`, ``, 4},
		},
		drill: drill{timeouts: resumableTimeouts, faults: []fault{delayWrites()}}, want: lateWrite,
	},
	"jobs-of-a-dead-instance-are-not-taken-over": {
		edits: []edit{{dispatchCode, `range slices\.Chunk\((\w+), takeoverBatch\)`, `range slices.Chunk($1[:0], takeoverBatch)`, 1}},
		// Sessions repeat what they have lost, so only jobs of callers show it: at the kill the instance has three or four of them on average.
		drill: drill{timeouts: shortTimeouts, callers: 32, faults: []fault{killInstance(downFor)}}, want: lateTerminal,
	},
}

// TestMutantsAreDetected checks that a broken scheduler fails a drill. A violation depends on timing, so a mutant has several
// tries.
func TestMutantsAreDetected(t *testing.T) {
	t.Parallel()
	if *drillTopology != clustertest.Standalone {
		t.Skip("the detection does not depend on the topology " + *drillTopology + ", and one mutant needs the proxies of a standalone Redis")
	}
	const tries = 10
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			binary := m.build(t, name)
			for n := range tries {
				violations := m.drill.runWith(t, binary).violations
				if slices.ContainsFunc(violations, func(v violation) bool { return v.kind == m.want }) {
					t.Logf("detected in try %d: %s", n+1, m.want)
					return
				}
				t.Logf("try %d of %d found %v", n+1, tries, violations)
			}
			t.Errorf("not detected: %s", m.want)
		})
	}
}

// TestMutantsMatchTheSource checks without a drill that all edits can be applied.
func TestMutantsMatchTheSource(t *testing.T) {
	t.Parallel()
	for name, m := range mutants {
		if _, err := m.changedFiles(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// build builds a binary of the changed source. The files of the repository stay as they are.
func (m mutant) build(t *testing.T, name string) string {
	t.Helper()
	overlay, err := m.writeOverlay(name)
	if err != nil {
		t.Fatal(err)
	}
	return build(t, name, "-overlay", overlay)
}

// writeOverlay writes the changed files and a description of them for go build, and returns its path.
func (m mutant) writeOverlay(name string) (string, error) {
	files, err := m.changedFiles()
	if err != nil {
		return "", err
	}
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for path, text := range files {
		changed := filepath.Join(buildDir, name+"."+filepath.Base(path))
		if err := os.WriteFile(changed, text, 0o600); err != nil {
			return "", err
		}
		overlay.Replace[path] = changed
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	overlayPath := filepath.Join(buildDir, name+".json")
	return overlayPath, os.WriteFile(overlayPath, text, 0o600)
}

// changedFiles applies all edits, and returns the new text of each file that they change.
func (m mutant) changedFiles() (map[string][]byte, error) {
	changed := make(map[string][]byte)
	for _, e := range m.edits {
		pattern, err := regexp.Compile(e.pattern)
		if err != nil {
			return nil, err
		}
		glob, err := filepath.Abs(filepath.Join("..", "..", e.files))
		if err != nil {
			return nil, err
		}
		paths, err := filepath.Glob(glob)
		if err != nil {
			return nil, err
		}
		matches := 0
		for _, path := range paths {
			text, ok := changed[path]
			if !ok {
				if text, err = os.ReadFile(path); err != nil {
					return nil, err
				}
			}
			if n := len(pattern.FindAllIndex(text, -1)); n > 0 {
				matches += n
				changed[path] = pattern.ReplaceAll(text, []byte(e.replacement))
			}
		}
		if matches != e.count {
			return nil, fmt.Errorf("%s matches %d times in %s, want %d: the source has changed, adapt the mutant", e.pattern, matches, e.files, e.count)
		}
	}
	return changed, nil
}
