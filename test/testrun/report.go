package main

import (
	"bufio"
	"cmp"
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
	Action, Package, Test, Output string
	FailedBuild                   string
	Elapsed                       float64
}

// result is that of a test which has ended; subtests are parts of theirs.
type result struct {
	name string
	took time.Duration
}

// report prints results as they come and collects them for the summary.
type report struct {
	out                       io.Writer
	left                      int // packages
	began                     time.Time
	packages, passed, skipped int
	ended                     []result
	failedTests               []string
	final                     map[string]bool   // packages whose failure no stall explains: a data race, or one that cannot be built
	output                    map[string]string // of each test that has not ended, by package and test; of packages, by package
	tests                     map[string][]string
}

func newReport(out io.Writer) *report {
	return &report{out: out, began: time.Now(), final: make(map[string]bool), output: make(map[string]string),
		tests: make(map[string][]string)}
}

// read prints the results of packages until the end of events, and returns those that failed.
func (r *report) read(events io.Reader) (failed []string, err error) {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			switch {
			case json.Unmarshal(line, &e) != nil || e.Action == "": // of go test itself
				fmt.Fprintf(r.out, "%s", line)
			case e.Package == "": // of the compiler
				fmt.Fprint(r.out, e.Output)
			case e.Test == "":
				if r.packageEvent(&e) {
					failed = append(failed, e.Package)
				}
			default:
				r.testEvent(&e)
			}
		}
		if errors.Is(err, io.EOF) {
			return failed, nil
		}
		if err != nil {
			return failed, err
		}
	}
}

func (r *report) testEvent(e *event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "run":
		r.tests[e.Package] = append(r.tests[e.Package], key)
	case "output":
		if !strings.HasPrefix(e.Output, "=== ") {
			r.output[key] += e.Output
		}
		r.final[e.Package] = r.final[e.Package] || strings.Contains(e.Output, "WARNING: DATA RACE")
	case "fail":
		r.failedTests = append(r.failedTests, key)
	case "pass", "skip":
		delete(r.output, key)
		if e.Action == "pass" {
			r.passed++
		} else {
			r.skipped++
		}
	}
	if e.Action != "output" && e.Elapsed > 0 && !strings.Contains(e.Test, "/") {
		r.ended = append(r.ended, result{shortName(key), time.Duration(e.Elapsed * float64(time.Second))})
	}
}

// packageEvent reports whether a package has failed.
func (r *report) packageEvent(e *event) bool {
	switch e.Action {
	case "output":
		r.output[e.Package] += e.Output
		return false
	case "pass", "fail", "skip":
	default:
		return false
	}
	failed := e.Action == "fail"
	if failed {
		r.final[e.Package] = r.final[e.Package] || e.FailedBuild != ""
		for _, key := range r.tests[e.Package] {
			fmt.Fprint(r.out, r.output[key]) // also of tests that did not end
		}
		fmt.Fprint(r.out, r.output[e.Package])
	}
	delete(r.tests, e.Package)
	delete(r.output, e.Package)
	r.left--
	r.packages++
	word := map[string]string{"pass": "ok  ", "skip": "skip", "fail": "FAIL"}[e.Action]
	fmt.Fprintf(r.out, "%s %6.1f s  %-28s %3d left", word, e.Elapsed, shortName(e.Package), r.left)
	if len(r.ended) > 0 {
		s := slices.MaxFunc(r.ended, byTime)
		fmt.Fprintf(r.out, ", after %.0f s; slowest so far: %.1f s %s", time.Since(r.began).Seconds(), s.took.Seconds(), s.name)
	}
	fmt.Fprintln(r.out)
	return failed
}

func byTime(a, b result) int { return cmp.Compare(a.took, b.took) }

// shortName returns a name without that of this module.
func shortName(name string) string {
	return strings.TrimPrefix(name, "github.com/lingua-scheduler/lingua/")
}

// summarize prints the slowest tests, those that failed, and the counts.
func (r *report) summarize(slowest int) {
	slices.SortFunc(r.ended, func(a, b result) int { return byTime(b, a) })
	if n := min(slowest, len(r.ended)); n > 0 {
		fmt.Fprintf(r.out, "\nthe %d slowest tests:\n", n)
		for _, t := range r.ended[:n] {
			fmt.Fprintf(r.out, "%6.1f s  %s\n", t.took.Seconds(), t.name)
		}
	}
	for _, name := range r.failedTests {
		fmt.Fprintf(r.out, "FAIL  %s\n", shortName(name))
	}
	fmt.Fprintf(r.out, "%d packages; tests: %d passed, %d failed, %d skipped\n", r.packages, r.passed, len(r.failedTests), r.skipped)
}
