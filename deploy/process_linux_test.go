package deploy_test

import (
	"bytes"
	"errors"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/test/child"
)

// process is the program of a container, without the container.
type process struct {
	*child.Process
	name string

	mu     sync.Mutex
	output bytes.Buffer
}

// Write collects the output of the program.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(b)
}

func (p *process) outputText() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// startProcess runs a program with the given environment until the test ends.
func startProcess(t *testing.T, name string, environ []string, program string, args ...string) *process {
	t.Helper()
	skipShort(t)
	p, cmd := &process{name: name}, exec.Command(program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, p, p
	var err error
	if p.Process, err = child.Start(cmd); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	t.Cleanup(func() {
		p.KillAndWait()
		if t.Failed() {
			t.Logf("output of %s:\n%s", name, p.outputText())
		}
	})
	return p
}

// stop sends SIGTERM, as for a container, and expects exit code 0 in time.
func (p *process) stop(t *testing.T, within time.Duration) {
	t.Helper()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-p.Exited:
		if p.ExitErr != nil {
			t.Errorf("%s ended with %v", p.name, p.ExitErr)
		}
	case <-late.C:
		t.Errorf("%s did not end within %v: it would have been killed", p.name, within)
	}
}

// waitUntil calls a check until it returns no error. It fails if the process has ended.
func waitUntil(t *testing.T, what string, on *process, ask func() error) {
	t.Helper()
	late := time.NewTimer(40 * time.Second)
	defer late.Stop()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-on.Exited:
			t.Fatalf("%s: %s ended (%v)", what, on.name, errors.Join(err, on.ExitErr))
		case <-late.C:
			t.Fatalf("%s: %v", what, err)
		case <-again.C:
		}
	}
}
