package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// maxRuns is how often a test runs at most.
const maxRuns = 3

// runner runs tests, and repeats those whose failures prove nothing.
type runner struct {
	out    io.Writer
	goTest func(ctx context.Context, args []string, read func(io.Reader) error) (bool, error)
	stalls func() []interval // of the machine until now
}

// run runs the tests of packages. It reports whether they passed.
func (r *runner) run(ctx context.Context, flags, packages []string) bool {
	calls := [][]string{packages}
	for n := 1; ; n++ {
		report, passed := newReport(r.out), true
		for _, call := range calls {
			ok, err := r.goTest(ctx, slices.Concat(flags, call), report.read)
			if err != nil {
				fmt.Fprintf(r.out, "go test: %v\n", err)
				return false
			}
			passed = passed && ok
		}
		if passed {
			return true
		}
		failures, stalls := report.failures(), r.stalls()
		if len(failures) == 0 || slices.ContainsFunc(failures, func(f failure) bool { return !f.during(stalls) }) {
			return false
		}
		fmt.Fprintf(r.out, "\nThe machine stood still while these tests ran: %s.\n", describe(stalls, failures))
		if n == maxRuns {
			fmt.Fprintf(r.out, "It did so in each of %d runs. Repeat them on a machine that has its processors to itself.\n", maxRuns)
			return false
		}
		fmt.Fprintln(r.out, "Their failures prove nothing, so they run again:")
		calls = calls[:0]
		for _, f := range failures {
			fmt.Fprintf(r.out, "  %s %s\n", f.pkg, strings.Join(f.tests, " "))
			calls = append(calls, f.arguments())
		}
	}
}

// describe lists the stalls during which tests failed.
func describe(stalls []interval, failures []failure) string {
	var list []string
	for _, s := range stalls {
		if slices.ContainsFunc(failures, func(f failure) bool { return slices.ContainsFunc(f.ran, s.overlaps) }) {
			list = append(list, fmt.Sprintf("from %s for %.1f s", s.from.Format(time.TimeOnly), s.to.Sub(s.from).Seconds()))
		}
	}
	return strings.Join(list, ", ")
}
