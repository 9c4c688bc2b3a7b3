// Command testrun runs `go test`, and repeats packages of which tests failed while the machine stood still.
//
// Many tests depend on real time: a node that sends no heartbeat for some seconds is lost, also when it is the whole machine that did
// not run. On a virtual machine this happens when the hypervisor runs other machines. Tests that failed then may have failed for this reason, and run
// again. A test that failed while the machine ran has failed, and nothing is repeated.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"time"
)

const usage = `Usage: testrun [flags of go test] -- PACKAGE...

testrun runs go test and prints the results of the packages, with the output of tests that failed. If each of these ran while the machine
stood still for a second or longer, or while its hypervisor took a third of its processor time, their packages run again, at most twice.
A data race, an error of the runtime and a package that cannot be built are never repeated. The environment variable GO names the go command.
`

func main() {
	separator := slices.Index(os.Args, "--")
	if separator < 0 || separator == len(os.Args)-1 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) //nolint:forbidigo // the root of the process
	defer stop()
	var m machine
	go m.watch(ctx)
	g := goCommand{name: "go"}
	if name := os.Getenv("GO"); name != "" {
		g.name = name
	}
	r := runner{out: os.Stdout, goTest: g.test, stalls: func() []interval { return m.afterASample(ctx) }}
	if !r.run(ctx, os.Args[1:separator], os.Args[separator+1:]) {
		os.Exit(1) //nolint:gocritic // the process ends with all that would be stopped
	}
}

// goCommand is the go command, and the directory in which it runs.
type goCommand struct{ name, dir string }

// test runs go test and passes its events to a function. It reports whether the tests passed.
func (g goCommand) test(ctx context.Context, args []string, read func(io.Reader) error) (bool, error) {
	cmd := exec.CommandContext(ctx, g.name, append([]string{"test", "-json"}, args...)...)
	cmd.Dir, cmd.Stderr = g.dir, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	events, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	readErr := read(events)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case readErr != nil:
		return false, readErr
	case err != nil && !cmd.ProcessState.Exited():
		return false, err
	}
	return err == nil, nil
}
