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

// print prints the output of the tests that did not pass, and of the package.
func (p *packageRun) print(out io.Writer) {
	if p.failed {
		for _, t := range p.order[1:] {
			if t.failed || !t.ended {
				fmt.Fprint(out, t.output.String())
			}
		}
	}
	fmt.Fprint(out, strings.TrimPrefix(p.order[0].output.String(), "PASS\n"))
}

// failure is a package with tests that failed. Without tests the package failed as a whole, and all its tests are to be repeated.
type failure struct {
	pkg   string
	tests []string
	ran   []interval // when they ran
}

// during reports whether each of the tests ran during one of the stalls.
func (f failure) during(stalls []interval) bool {
	return !slices.ContainsFunc(f.ran, func(ran interval) bool { return !slices.ContainsFunc(stalls, ran.overlaps) })
}

// arguments returns the arguments of go test that repeat the tests.
func (f failure) arguments() []string {
	args := []string{"-count=1"}
	if len(f.tests) > 0 {
		args = append(args, "-run", "^("+strings.Join(f.tests, "|")+")$")
	}
	return append(args, f.pkg)
}

// failures returns the packages that failed, or nil if one of them could not be built.
func (r *report) failures() (all []failure) {
	for _, p := range r.order {
		switch {
		case p.failedBuild:
			return nil
		case p.failed:
			all = append(all, p.failure())
		}
	}
	return all
}

func (p *packageRun) failure() failure {
	f := failure{pkg: p.name}
	for _, t := range p.order[1:] {
		switch {
		case strings.Contains(t.name, "/"): // a subtest
		case !t.ended: // the process ended before the test
			return failure{pkg: p.name, ran: []interval{p.order[0].ran}}
		case t.failed:
			f.tests, f.ran = append(f.tests, t.name), append(f.ran, t.ran)
		}
	}
	if len(f.tests) == 0 {
		f.ran = []interval{p.order[0].ran}
	}
	return f
}
