package repo_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testPattern matches the pattern of tests or benchmarks in a command of the Makefile, and packagePattern its packages.
var (
	testPattern    = regexp.MustCompile(`-(run|bench) '?([^' ]+)'?`)
	packagePattern = regexp.MustCompile(`\./[a-z/]+`)
)

// TestMakefilePatternsMatchTests checks that every -run and -bench pattern in the Makefile matches a test: a pattern that
// matches none passes.
func TestMakefilePatternsMatchTests(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	// -run '^$$' only switches the tests off beside -bench.
	text := strings.NewReplacer("-run '^$$' ", "", "$(DRILL)", "./test/drill", "$$", "$").Replace(string(makefile))
	found := 0
	for line := range strings.Lines(text) {
		m := testPattern.FindStringSubmatch(line)
		packages := packagePattern.FindAllString(line, -1)
		if m == nil || len(packages) == 0 || strings.Contains(line, "$pkg") {
			continue
		}
		found++
		names := testNames(t, map[string]string{"run": "Test", "bench": "Benchmark"}[m[1]], packages)
		for _, pattern := range strings.Split(m[2], "|") {
			if !slices.ContainsFunc(names, regexp.MustCompile(pattern).MatchString) {
				t.Errorf("-%s %s matches nothing in %v", m[1], pattern, packages)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d patterns were found", found)
	}
}

// testNames returns the functions in the tests of packages whose names begin with a prefix.
func testNames(t *testing.T, prefix string, packages []string) []string {
	t.Helper()
	declaration := regexp.MustCompile(`(?m)^func (` + prefix + `\w*)\(`)
	var names []string
	for _, dir := range packages {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range declaration.FindAllStringSubmatch(string(body), -1) {
				names = append(names, f[1])
			}
		}
	}
	return names
}
