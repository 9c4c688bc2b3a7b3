package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// event is a line of `go test -json`: see `go doc test2json`.
type event struct {
	Time                          time.Time
	Action, Package, Test, Output string
	FailedBuild                   string
}

// report is what is known of the tests of one run.
type report struct {
	out      io.Writer
	packages map[string]*packageRun
	order    []*packageRun
}

// packageRun is a run of the tests of a package. Its first test is the package itself.
type packageRun struct {
	name        string
	failed      bool
	failedBuild bool
	tests       map[string]*testRun
	order       []*testRun
}

// testRun is a run of a test or subtest, or of a package when the name is empty.
type testRun struct {
	name   string
	ran    interval
	ended  bool
	failed bool
	output strings.Builder
}

func newReport(out io.Writer) *report {
	return &report{out: out, packages: map[string]*packageRun{}}
}

// read records events until their end, and prints the result of each package.
func (r *report) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				fmt.Fprintf(r.out, "%s", line) // go test itself
			} else {
				r.add(e)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func (r *report) add(e event) {
	if e.Package == "" { // go build
		fmt.Fprint(r.out, e.Output)
		return
	}
	p := r.packages[e.Package]
	if p == nil {
		p = &packageRun{name: e.Package, tests: map[string]*testRun{}}
		r.packages[e.Package] = p
		r.order = append(r.order, p)
		p.test("").ran.from = e.Time
	}
	t := p.test(e.Test)
	t.ran.to = e.Time
	switch e.Action {
	case "start", "run", "cont": // a parallel test continues when the tests before it have ended
		t.ran.from = e.Time
	case "output":
		if !strings.HasPrefix(e.Output, "=== ") {
			t.output.WriteString(e.Output)
		}
	case "pass", "skip":
		t.ended = true
	case "fail":
		t.ended, t.failed = true, true
	}
	if e.Test == "" && t.ended {
		p.failed, p.failedBuild = t.failed, e.FailedBuild != ""
		p.print(r.out)
	}
}

// test returns the run of a test, which it adds when it is new.
func (p *packageRun) test(name string) *testRun {
	t := p.tests[name]
	if t == nil {
		t = &testRun{name: name}
		p.tests[name] = t
		p.order = append(p.order, t)
	}
	return t
}

// print prints the output of the package, and of the tests of one that failed.
func (p *packageRun) print(out io.Writer) {
	if p.failed {
		for _, t := range p.order[1:] {
			if t.failed || !t.ended {
				fmt.Fprint(out, t.output.String())
			} else {
				printUnlogged(out, t.output.String())
			}
		}
	}
	fmt.Fprint(out, strings.TrimPrefix(p.order[0].output.String(), "PASS\n"))
}

// printUnlogged prints the output of a test that passed without its log. What a process prints otherwise, a report of the race detector or a panic,
// counts as output of any of the tests that run.
func printUnlogged(out io.Writer, output string) {
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, "--- ") {
			fmt.Fprint(out, line)
		}
	}
}

// failure is a package that failed, and when the tests ran that failed or did not end; if there are none, when the package ran.
type failure struct {
	pkg string
	ran []interval
}

// during reports whether each of the tests ran during one of the stalls.
func (f failure) during(stalls []interval) bool {
	return !slices.ContainsFunc(f.ran, func(ran interval) bool { return !slices.ContainsFunc(stalls, ran.overlaps) })
}

// failures returns the packages that failed. ok is false if one of the failures is a fact on any machine: a package that cannot be built, a data
// race, an error of the runtime, or a run that was interrupted.
func (r *report) failures() (all []failure, ok bool) {
	for _, p := range r.order {
		switch {
		case p.failedBuild || !p.order[0].ended || p.hasFact():
			return nil, false
		case p.failed:
			all = append(all, p.failure())
		}
	}
	return all, true
}

// facts are what the output has of a failure that no stall explains.
var facts = []string{"WARNING: DATA RACE", "race detected during execution", "fatal error: "}

func (p *packageRun) hasFact() bool {
	return slices.ContainsFunc(p.order, func(t *testRun) bool {
		return slices.ContainsFunc(facts, func(fact string) bool { return strings.Contains(t.output.String(), fact) })
	})
}

func (p *packageRun) failure() failure {
	f := failure{pkg: p.name}
	whole := p.order[0].ran
	for _, t := range p.order[1:] {
		switch {
		case strings.Contains(t.name, "/"): // a subtest
		case !t.ended: // the process ended before the test
			f.ran = append(f.ran, interval{t.ran.from, whole.to})
		case t.failed:
			f.ran = append(f.ran, t.ran)
		}
	}
	if len(f.ran) == 0 {
		f.ran = []interval{whole}
	}
	return f
}
