// Command testrun runs `go test` for groups of packages, prints its progress and a summary, and compiles the tests of a group before it
// runs them, so that both times are known.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"time"
)

const usage = `Usage: testrun [flags of testrun] GROUP [+ GROUP]...

A GROUP is flags of go test, written -name=value, and packages. The groups run one after another.

`

// group is one run of go test.
type group struct {
	flags    []string // of go test
	packages []string
}

// runner runs groups and collects their results.
type runner struct {
	report      *report
	compileTime time.Duration
	testTime    time.Duration
	repeat      bool
	flaky       []string // packages that failed and passed when they were repeated
}

func main() {
	flags := flag.NewFlagSet("testrun", flag.ExitOnError)
	slowest := flags.Int("slowest", 10, "how many of the slowest tests the summary lists")
	repeat := flags.Bool("repeat", false,
		"repeat packages that use Redis once if no others failed, and list those that then pass as FLAKY: "+
			"Redis expires leases by its own clock, also while a virtual machine stands still")
	flags.Usage = func() {
		fmt.Fprint(os.Stderr, usage)
		flags.PrintDefaults()
	}
	own, rest := splitOwnFlags(os.Args[1:], flags)
	_ = flags.Parse(own)                                                  // it exits
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) //nolint:forbidigo // the root of the process
	defer stop()
	r := runner{report: newReport(os.Stdout), repeat: *repeat}
	ok, err := r.run(ctx, rest)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
	}
	r.summarize(*slowest)
	if err != nil || !ok {
		os.Exit(1) //nolint:gocritic // the process ends with all that would be stopped
	}
}

// splitOwnFlags separates the flags of this command from the arguments for go test.
func splitOwnFlags(args []string, own *flag.FlagSet) (ours, rest []string) {
	for i, arg := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.HasPrefix(arg, "-") || own.Lookup(name) == nil && name != "help" && name != "h" {
			return args[:i], args[i:]
		}
	}
	return args, nil
}

// run runs all groups, also after one has failed.
func (r *runner) run(ctx context.Context, args []string) (ok bool, err error) {
	var groups []group
	for len(args) > 0 {
		end := slices.Index(args, "+")
		if end < 0 {
			end = len(args)
		}
		g, err := newGroup(ctx, args[:end])
		if err != nil {
			return false, err
		}
		groups = append(groups, g)
		r.report.left += len(g.packages)
		args = args[min(end+1, len(args)):]
	}
	if r.report.left == 0 {
		return false, errors.New("there are no packages with tests: see testrun -help")
	}
	ok = true
	for _, g := range groups {
		passed, err := r.runGroup(ctx, g)
		if err != nil {
			return false, err
		}
		ok = ok && passed
	}
	return ok, nil
}

// newGroup finds the packages with tests.
func newGroup(ctx context.Context, args []string) (group, error) {
	var g group
	var patterns []string
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			g.flags = append(g.flags, arg)
		} else {
			patterns = append(patterns, arg)
		}
	}
	if len(patterns) == 0 {
		return g, nil
	}
	out, err := goCommand(ctx, "list", g.buildFlags(), []string{"-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}"},
		patterns).Output()
	g.packages = strings.Fields(string(out))
	return g, err
}

// buildFlags are the flags that change how packages are compiled.
func (g group) buildFlags() []string {
	if slices.Contains(g.flags, "-race") {
		return []string{"-race"}
	}
	return nil
}

func goCommand(ctx context.Context, verb string, args ...[]string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", append([]string{verb}, slices.Concat(args...)...)...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func (r *runner) runGroup(ctx context.Context, g group) (ok bool, err error) {
	if len(g.packages) == 0 {
		return true, nil
	}
	began := time.Now()
	fmt.Printf("compiling %d packages %s\n", len(g.packages), strings.Join(g.flags, " "))
	if _, err := goCommand(ctx, "list", g.buildFlags(), []string{"-test", "-export", "-deps"}, g.packages).Output(); err != nil {
		return false, fmt.Errorf("compile: %w", err)
	}
	compiled := time.Now()
	r.compileTime += compiled.Sub(began)
	fmt.Printf("compiled in %.0f s\n", compiled.Sub(began).Seconds())
	failed, err := r.test(ctx, g)
	if err == nil && r.repeat && len(failed) > 0 {
		failed, err = r.repeatFailed(ctx, g, failed)
	}
	r.testTime += time.Since(compiled)
	return len(failed) == 0, err
}

// test runs go test and returns the packages that failed.
func (r *runner) test(ctx context.Context, g group) (failed []string, err error) {
	cmd := goCommand(ctx, "test", []string{"-json", "-vet=off"}, g.flags, g.packages)
	events, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	failed, readErr := r.report.read(events)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case readErr != nil:
		return nil, readErr
	case err != nil && len(failed) == 0:
		return nil, fmt.Errorf("go test: %w", err)
	}
	return failed, nil
}

// redisPackage is imported by the tests that use a real Redis.
const redisPackage = "github.com/lingua-scheduler/lingua/test/redistest"

// repeatFailed repeats the packages that failed once if all of them use Redis. It returns those that have failed finally.
func (r *runner) repeatFailed(ctx context.Context, g group, failed []string) ([]string, error) {
	out, err := goCommand(ctx, "list", g.buildFlags(), []string{"-test", "-f", "{{.ForTest}} {{.Deps}}"}, failed).Output()
	if err != nil {
		return failed, err
	}
	uses := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		pkg, deps, _ := strings.Cut(line, " ")
		uses[pkg] = uses[pkg] || slices.Contains(strings.Fields(strings.Trim(deps, "[]\n")), redisPackage)
	}
	if slices.ContainsFunc(failed, func(pkg string) bool { return !uses[pkg] || r.report.final[pkg] }) {
		return failed, nil
	}
	fmt.Printf("repeating %s\n", strings.Join(failed, " "))
	r.report.left += len(failed)
	again, err := r.test(ctx, group{append([]string{"-p=1"}, g.flags...), failed})
	for _, pkg := range failed {
		if err == nil && !slices.Contains(again, pkg) {
			r.flaky = append(r.flaky, pkg)
		}
	}
	return again, err
}

func (r *runner) summarize(slowest int) {
	if r.report.packages == 0 {
		return
	}
	r.report.summarize(slowest)
	for _, pkg := range r.flaky {
		fmt.Printf("FLAKY %s: it failed, and passed when it was repeated\n", pkg)
	}
	fmt.Printf("compile %.0f s, link and test %.0f s\n", r.compileTime.Seconds(), r.testTime.Seconds())
}
