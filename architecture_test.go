// Package lingua_test checks the repository: that imports follow the layers, that the code keeps its limits, and that the
// documents match the code.
package lingua_test

import (
	"bytes"
	"errors"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/lingua-scheduler/lingua/"

// layers are the packages from the lowest layer up. A package may import only packages of lower layers.
var layers = [][]string{
	{"internal/lockwait"},
	{"wire", "wire/oggopus", "internal/backoff", "internal/window", "web/dashboard", "internal/endpoints", "internal/parallel", "internal/deadline", "internal/latency", "internal/child", "internal/docpage", "internal/sources", "internal/peeraddr", "internal/tlsfile", "internal/tlstest", "internal/clustertest/journal", "internal/modelhub", "internal/tracing/otlptest", "bench/stats", "internal/fairqueue"},
	{"internal/stalltest", "internal/testrun", "internal/wirespec", "internal/redistest", "node", "client"},
	{"internal/core", "internal/socket"},
	{"internal/store", "internal/auth", "internal/logqueue"},
	{"internal/store/memstore", "internal/store/redisstore", "internal/store/storetest", "internal/telemetry", "internal/fleet", "internal/audio", "internal/events", "internal/audit", "internal/peer", "internal/revocation", "internal/tracing", "internal/jobring", "internal/tenants"},
	{"internal/pick", "internal/config", "internal/bus"},
	{"internal/dispatch", "internal/reload", "internal/guard", "internal/pools"},
	{"internal/nodes", "internal/nodetable", "internal/callback", "internal/sim"},
	{"internal/convert", "internal/loadtest"},
	{"internal/session", "internal/nodeconn"},
	{"internal/server"},
	{"internal/scheduler"},
	{"cmd/lingua", "internal/clustertest", "bench/inprocess", "examples/node", "examples/client", "deploy/dockerfile", "deploy/grafana/gen"},
	{"internal/dashtest"},
	{"bench", "bench/peers", "bench/conversations", "bench/cluster", "bench/agreement", "bench/guards", "bench/scale", "bench/waiting"},
}

// public are the packages for users of the module. Of the internal packages they may import only sharedByPublic, which import
// nothing of this module.
var (
	public         = []string{"wire", "wire/oggopus", "node", "client"}
	sharedByPublic = []string{"internal/endpoints", "internal/backoff"}
)

// goFiles calls fn with each Go file of the repository and its package.
func goFiles(t *testing.T, fn func(file, dir string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "tools" || d.Name() == "bin" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && p != "."):
			return filepath.SkipDir
		case strings.HasSuffix(p, ".go"):
			fn(p, path.Dir(filepath.ToSlash(p)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestImportsFollowTheLayers(t *testing.T) {
	t.Parallel()
	level := make(map[string]int)
	for i, layer := range layers {
		for _, pkg := range layer {
			level[pkg] = i
		}
	}
	fset := token.NewFileSet()
	goFiles(t, func(file, dir string) {
		if strings.HasSuffix(file, "_test.go") {
			return // tests may import every package
		}
		from, known := level[dir]
		if !known {
			t.Errorf("%s is in no layer: add %s to the layers in architecture_test.go", file, dir)
			return
		}
		parsed, err := parser.ParseFile(fset, file, nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		for _, spec := range parsed.Imports {
			imported, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
			if !ours {
				continue
			}
			if to, ok := level[imported]; !ok || to >= from {
				t.Errorf("%s imports %s, which is not in a lower layer", file, imported)
			}
			if slices.Contains(public, dir) && !slices.Contains(public, imported) && !slices.Contains(sharedByPublic, imported) {
				t.Errorf("%s is public and imports %s", file, imported)
			}
			if slices.Contains(sharedByPublic, dir) {
				t.Errorf("%s is shared by the public packages and imports %s", file, imported)
			}
		}
	})
}

// TestFilesAreSmall checks the length of files: a longer one is probably about two things.
func TestFilesAreSmall(t *testing.T) {
	t.Parallel()
	const maxLines = 450
	goFiles(t, func(file, _ string) {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		if n := bytes.Count(body, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines", file, n)
		}
	})
}

// TestTrackedFilesAreTextAndSmall checks that no binary is tracked, except test data and the pictures of the documentation.
func TestTrackedFilesAreTextAndSmall(t *testing.T) {
	t.Parallel()
	const maxBytes = 1 << 20
	tracked, err := exec.CommandContext(t.Context(), "git", "ls-files", "-z").Output()
	if err != nil {
		t.Logf("not a git checkout: %v", err)
		return
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(tracked), "\x00"), "\x00") {
		body, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed in the working tree
		}
		if err != nil {
			t.Error(err)
		}
		picture, _ := filepath.Match("docs/images/*.png", name)
		binary := bytes.ContainsRune(body[:min(len(body), 8000)], 0) && !strings.Contains(name, "/testdata/") && !picture
		if len(body) > maxBytes || binary {
			t.Errorf("%s is %d bytes, or not text", name, len(body))
		}
	}
}

// TestRetryTimesAreSetTogether checks that errors set their retry time in seconds and milliseconds with wire.Error.RetryIn.
func TestRetryTimesAreSetTogether(t *testing.T) {
	t.Parallel()
	set := regexp.MustCompile(`\bRetryAfter(MS)?( =|:) `)
	goFiles(t, func(file, dir string) {
		if dir == "wire" || strings.HasSuffix(file, "_test.go") {
			return
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if set.Match(text) {
			t.Errorf("%s sets RetryAfter directly: use wire.Error.RetryIn", file)
		}
	})
}

// TestNestedModulesResolve checks that go.mod and go.sum of each nested module, which ./... does not include, match its
// imports.
func TestNestedModulesResolve(t *testing.T) {
	t.Parallel()
	found := 0
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "bin" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && file != "."):
			return filepath.SkipDir
		case d.Name() != "go.mod" || file == "go.mod":
			return nil
		}
		found++
		for _, patterns := range [][]string{{"-test", "./..."}, {"tool"}} { // with the tests of our packages, without those of tools
			list := exec.CommandContext(t.Context(), "go", append([]string{"list", "-mod=readonly", "-deps"}, patterns...)...)
			list.Dir = filepath.Dir(file)
			if out, err := list.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", list.Dir, err, out)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 3 {
		t.Errorf("%d nested modules; bench/peers, deploy/dockerfile and tools should be among them", found)
	}
}

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
	text := strings.NewReplacer("-run '^$$' ", "", "$(DRILL)", "./internal/drill", "$$", "$").Replace(string(makefile))
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
