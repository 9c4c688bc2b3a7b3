package deploy_test

import (
	"bytes"
	"errors"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/child"
)

// process is one container's program, without the container.
type process struct {
	*child.Process
	name string

	mu   sync.Mutex
	said bytes.Buffer
}

// Write takes in what the program says.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *process) words() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// start runs a program with this environment and no other, until the test ends.
func start(t *testing.T, name string, environ []string, program string, args ...string) *process {
	t.Helper()
	p, cmd := &process{name: name}, exec.Command(program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, p, p
	var err error
	if p.Process, err = child.Start(cmd); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	t.Cleanup(func() {
		p.KillAndWait()
		if t.Failed() {
			t.Logf("%s said:\n%s", name, p.words())
		}
	})
	return p
}

// stop asks it to end, as a container is asked, and expects that it does, well and in time.
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

// until asks again and again until there is no error, or the program that is waited for has ended.
func until(t *testing.T, what string, on *process, ask func() error) {
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
