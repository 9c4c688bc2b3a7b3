package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sources are the tests of a module that fail in all ways. A file that they create says that they ran before.
var sources = map[string]string{
	"go.mod": "module example.org/m\n\ngo 1.24\n",
	"good/good_test.go": `package good

import "testing"

func TestGood(t *testing.T) { t.Log("nobody reads this") }
`,
	"bad/bad_test.go": `package bad

import (
	"os"
	"testing"
)

func TestGood(t *testing.T) { t.Parallel() }

func TestPrints(t *testing.T) {
	t.Log("nobody reads this")
	os.Stderr.WriteString("what a process prints\n")
}

func TestSubtest(t *testing.T) {
	t.Run("one", func(t *testing.T) {
		if os.WriteFile("../runs", append(runs(), '.'), 0o600) != nil || len(runs()) < 3 {
			t.Error("a reason")
		}
	})
	t.Run("two", func(t *testing.T) { t.Log("nobody reads this") })
}

func runs() []byte {
	list, _ := os.ReadFile("../runs")
	return list
}
`,
	"panics/panics_test.go": `package panics

import "testing"

func TestGood(t *testing.T) {}

func TestPanics(t *testing.T) {
	t.Parallel()
	panic("a reason")
}

func TestWaits(t *testing.T) {
	t.Parallel()
	select {}
}
`,
	"late/late_test.go": `package late

import "testing"

func TestFails(t *testing.T) { t.Error("a reason") }

func TestWaits(t *testing.T) { select {} }
`,
	"racy/racy_test.go": `package racy

import "testing"

func TestFails(t *testing.T) { t.Error("WARNING: DATA RACE") }
`,
	"broken/broken_test.go": "package broken\n\nvar x int = \"\"\n",
}

// inModule runs the tests of packages of the module, on a machine that stood still at times.
func inModule(t *testing.T, stalls func() []interval, packages ...string) (passed bool, calls [][]string, output string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range sources {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	r := runner{out: &out, stalls: stalls, goTest: func(ctx context.Context, args []string, read func(io.Reader) error) (bool, error) {
		calls = append(calls, args)
		return goCommand{name: "go", dir: dir}.test(ctx, args, read)
	}}
	passed = r.run(t.Context(), []string{"-timeout=10s"}, packages)
	return passed, calls, out.String()
}

func always() []interval { return []interval{{time.Unix(0, 0), time.Now().Add(time.Hour)}} }

func never() []interval { return nil }

// TestRepeats: tests that failed run again if the machine stood still while they ran, at most twice, and no other tests.
func TestRepeats(t *testing.T) {
	t.Parallel()
	again := func(pkg string) []string { return []string{"-timeout=10s", "-count=1", "-p=1", "example.org/m/" + pkg} }
	for name, c := range map[string]struct {
		stalls   func() []interval
		packages []string
		passed   bool
		repeats  [][]string
		output   []string
	}{
		"passed":              {always, []string{"./good"}, true, nil, []string{"ok", "example.org/m/good"}},
		"while it ran":        {never, []string{"./good", "./bad"}, false, nil, []string{"a reason", "--- FAIL: TestSubtest/one", "ok", "FAIL", "what a process prints"}},
		"while it stood":      {always, []string{"./good", "./bad"}, true, [][]string{again("bad"), again("bad")}, []string{"a reason", "stood still"}},
		"before it stood":     {later, []string{"./bad"}, false, nil, []string{"a reason"}},
		"the process failed":  {always, []string{"./panics"}, false, [][]string{again("panics"), again("panics")}, []string{"panic: a reason", "in each of 3 runs"}},
		"a timeout":           {atTheEnd, []string{"./late"}, false, nil, []string{"a reason", "panic: test timed out"}},
		"a data race":         {always, []string{"./racy"}, false, nil, []string{"DATA RACE"}},
		"one cannot be built": {always, []string{"./bad", "./broken"}, false, nil, []string{"a reason", "broken_test.go:3:", "[build failed]"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			passed, calls, output := inModule(t, c.stalls, c.packages...)
			if passed != c.passed || len(calls) == 0 {
				t.Fatalf("passed %v; %d calls; %s", passed, len(calls), output)
			}
			if diff := cmp.Diff(append([][]string(nil), c.repeats...), append([][]string(nil), calls[1:]...)); diff != "" {
				t.Errorf("repeated calls (-want +got):\n%s", diff)
			}
			for _, want := range c.output {
				if !strings.Contains(output, want) {
					t.Errorf("the output does not contain %q:\n%s", want, output)
				}
			}
			if strings.Contains(output, "nobody reads this") || strings.Contains(output, "===") {
				t.Errorf("the output contains that of tests that passed:\n%s", output)
			}
		})
	}
}

// atTheEnd returns a stall of the last seconds: a test that failed before it is not explained by it.
func atTheEnd() []interval {
	return []interval{{time.Now().Add(-5 * time.Second), time.Now()}}
}

func later() []interval { return []interval{{time.Now(), time.Now().Add(time.Second)}} }

// TestStalls: a sample that is late or that lost much processor time is a stall, and adjacent stalls are one.
func TestStalls(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	var m machine
	for _, s := range []struct{ from, to, stolen int }{
		{0, 1000, 0}, {1000, 2999, 600}, {2999, 4999, 0}, {4999, 5999, 400}, {5999, 6999, 300}, {6999, 60000, 0},
	} {
		m.observe(interval{at(s.from), at(s.to)}, time.Duration(s.stolen)*time.Millisecond)
	}
	want := []interval{{at(2999), at(5999)}, {at(6999), at(60000)}}
	if diff := cmp.Diff(want, m.all(), cmp.AllowUnexported(interval{})); diff != "" {
		t.Error(diff)
	}
	const stat = "cpu  1 2 3 4 5 6 7 800 0 0\ncpu0 1 2 3 4 5 6 7 300 0 0\ncpu1 1 2 3 4 5 6 7 500 0 0\nintr 1 2 3 4 5 6 7 8 9\n"
	if got := parseStolen(stat); got != 4*time.Second {
		t.Errorf("two processors lost %v each, want 4 s", got)
	}
	failures := []failure{{ran: []interval{{at(0), at(2999)}}}, {ran: []interval{{at(6000), at(6999)}, {at(7000), at(8000)}}}}
	if got, want := describe(want, failures), "from "+at(6999).Format(time.TimeOnly)+" for 53.0 s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
