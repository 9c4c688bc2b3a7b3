// Package lingua_test checks the house itself: that imports point downward, and that its pages are true.
package lingua_test

import (
	"bytes"
	"errors"
	"fmt"
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

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
)

const module = "github.com/lingua-scheduler/lingua/"

// storeys are the packages from the ground up. A package may import only what stands below it.
var storeys = [][]string{
	{"wire", "wire/oggopus", "internal/backoff", "internal/endpoints", "internal/parallel", "internal/deadline", "internal/child", "internal/clustertest/journal", "bench/stats"},
	{"internal/wirespec", "internal/redistest", "node", "client"},
	{"internal/core", "internal/socket"},
	{"internal/store", "internal/auth"},
	{"internal/store/memstore", "internal/store/redisstore", "internal/store/storetest", "internal/telemetry", "internal/fleet", "internal/audio"},
	{"internal/pick", "internal/config", "internal/bus"},
	{"internal/dispatch"},
	{"internal/nodes", "internal/callback", "internal/sim"},
	{"internal/convert"},
	{"internal/session", "internal/nodeconn"},
	{"internal/server"},
	{"internal/scheduler"},
	{"cmd/lingua", "internal/clustertest", "bench/inprocess", "examples/node", "examples/client"},
	{"bench", "bench/peers", "bench/conversations", "bench/cluster"},
}

// public packages are imported by other modules. Of the internal packages they may import only sharedByPublic, which
// import nothing of this module.
var (
	public         = []string{"wire", "wire/oggopus", "node", "client"}
	sharedByPublic = []string{"internal/endpoints", "internal/backoff"}
)

// goFiles walks the module's Go files.
func goFiles(t *testing.T, fn func(file, dir string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "tools" || d.Name() == "bin" || strings.HasPrefix(d.Name(), ".") && p != "."):
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

func TestImportsPointDownward(t *testing.T) {
	t.Parallel()
	level := make(map[string]int)
	for i, storey := range storeys {
		for _, pkg := range storey {
			level[pkg] = i
		}
	}
	fset := token.NewFileSet()
	goFiles(t, func(file, dir string) {
		if strings.HasSuffix(file, "_test.go") {
			return // a test may stand on the roof
		}
		from, known := level[dir]
		if !known {
			t.Errorf("%s stands in no storey: give %s its place in house_test.go", file, dir)
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
				t.Errorf("%s imports %s, which does not stand below it", file, imported)
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

// TestFilesAreSmall: a file much longer than this is probably two ideas.
func TestFilesAreSmall(t *testing.T) {
	t.Parallel()
	const most = 450
	goFiles(t, func(file, _ string) {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		if n := bytes.Count(body, []byte("\n")); n > most {
			t.Errorf("%s has %d lines", file, n)
		}
	})
}

// TestNothingBuiltIsKept: what is tracked is text, and none of it is large. A program that was built belongs to nobody's
// checkout.
func TestNothingBuiltIsKept(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	tracked, err := exec.CommandContext(t.Context(), "git", "ls-files", "-z").Output()
	if err != nil {
		t.Logf("this is no checkout: %v", err)
		return
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(tracked), "\x00"), "\x00") {
		body, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is being removed
		}
		if err != nil {
			t.Error(err)
		}
		if len(body) > most || bytes.ContainsRune(body[:min(len(body), 8000)], 0) && !strings.Contains(name, "/testdata/") {
			t.Errorf("%s is %d bytes, or not text", name, len(body))
		}
	}
}

func TestStateMachinePageIsTrue(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/state-machine.md")
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z]+) \| ([a-z]+) \| ([A-Z]+) \|$`).FindAllStringSubmatch(string(page), -1) {
		written = append(written, strings.Join(row[1:], " "))
	}
	var coded []string
	for s := range core.States() {
		for e := range core.Events() {
			if to, ok := s.Next(e); ok {
				coded = append(coded, fmt.Sprintf("%s %s %s", s, e, to))
			}
		}
	}
	slices.Sort(written)
	slices.Sort(coded)
	if diff := cmp.Diff(coded, written); diff != "" {
		t.Errorf("docs/state-machine.md (-code +page):\n%s", diff)
	}
}

func TestConfigurationPageIsTrue(t *testing.T) {
	t.Parallel()
	var reference bytes.Buffer
	if err := config.WriteReference(&reference); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```toml\n"+reference.String()+"```") {
		t.Errorf("docs/configuration.md does not hold what `lingua config reference` prints; paste it anew:\n%s", reference.String())
	}
}

// pages lists the Markdown files.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#: ]+)(#[^)]*)?\)`)
	for _, page := range pages(t) {
		body, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(body), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			}
		}
	}
}

// TestTheTwinsSayTheSame: what is to be pasted is the same in both languages.
func TestTheTwinsSayTheSame(t *testing.T) {
	t.Parallel()
	fence := regexp.MustCompile("(?s)```(?:bash|sh)\n(.*?)```")
	commands := func(page string) []string {
		body, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, m := range fence.FindAllStringSubmatch(string(body), -1) {
			for line := range strings.Lines(m[1]) {
				if line = strings.TrimSpace(strings.SplitN(line, "  #", 2)[0]); line != "" && !strings.HasPrefix(line, "#") {
					all = append(all, line)
				}
			}
		}
		return all
	}
	if diff := cmp.Diff(commands("README.md"), commands("README.zh-CN.md")); diff != "" {
		t.Errorf("commands (-README.md +README.zh-CN.md):\n%s", diff)
	}
}

func TestEveryDecisionIsListed(t *testing.T) {
	t.Parallel()
	index, err := os.ReadFile("docs/decisions/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages(t) {
		dir, name := filepath.Split(page)
		if dir == "docs/decisions/" && name != "README.md" && !strings.Contains(string(index), "("+name+")") {
			t.Errorf("docs/decisions/README.md does not list %s", name)
		}
	}
}

// An error that says when to retry says it in seconds and in milliseconds: wire.Error.RetryIn sets both.
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
			t.Errorf("%s sets RetryAfter itself: use wire.Error.RetryIn", file)
		}
	})
}

// A nested module is not part of ./..., so nothing else notices when its go.mod or go.sum falls behind what it imports
// from here, and a fresh clone cannot build it.
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
		for _, what := range [][]string{{"-test", "./..."}, {"tool"}} { // tests of our own packages, not of others' tools
			list := exec.CommandContext(t.Context(), "go", append([]string{"list", "-mod=readonly", "-deps"}, what...)...)
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
	if found < 2 {
		t.Errorf("%d nested modules; bench/peers and tools should be among them", found)
	}
}
