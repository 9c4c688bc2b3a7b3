package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// maxRuns is how often the tests of a package run at most.
const maxRuns = 3

// runner runs tests, and repeats those that failed while the machine stood still.
type runner struct {
	out    io.Writer
	goTest func(ctx context.Context, args []string, read func(io.Reader) error) (bool, error)
	stalls func() []interval // of the machine until now
}

// run runs the tests of packages. It reports whether they passed.
func (r *runner) run(ctx context.Context, flags, packages []string) bool {
	args := slices.Concat(flags, packages)
	for n := 1; ; n++ {
		report := newReport(r.out)
		passed, err := r.goTest(ctx, args, report.read)
		if err != nil {
			fmt.Fprintf(r.out, "go test: %v\n", err)
			return false
		}
		if passed {
			return true
		}
		failures, ok := report.failures()
		if !ok || len(failures) == 0 {
			return false
		}
		stalls := r.stalls()
		if slices.ContainsFunc(failures, func(f failure) bool { return !f.during(stalls) }) {
			return false
		}
		fmt.Fprintf(r.out, "\nThe machine stood still while these tests ran: %s.\n", describe(stalls, failures))
		if n == maxRuns {
			fmt.Fprintf(r.out, "It did so in each of %d runs. Repeat them on a machine that has its processors to itself.\n", maxRuns)
			return false
		}
		fmt.Fprintln(r.out, "They may have failed for that reason, so their packages run again:")
		args = append(slices.Clone(flags), "-count=1", "-p=1")
		for _, f := range failures {
			fmt.Fprintln(r.out, " ", f.pkg)
			args = append(args, f.pkg)
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
