package deploy_test

import (
	"bytes"
	"errors"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is one container's program, without the container.
type process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{} // closed when it was waited for
	err   error         // how it ended

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

// start runs a program with this environment and no other, until the test ends. Linux takes the thread that made a child
// for its parent, so one thread starts it and stays: should the test die, the program dies with it.
func start(t *testing.T, name string, environ []string, program string, args ...string) *process {
	t.Helper()
	p := &process{name: name, cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = environ, p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.ended)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended by itself
		<-p.ended
		if t.Failed() {
			t.Logf("%s said:\n%s", name, p.words())
		}
	})
	return p
}

// stop asks it to end, as a container is asked, and expects that it does, well and in time.
func (p *process) stop(t *testing.T, within time.Duration) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-p.ended:
		if p.err != nil {
			t.Errorf("%s ended with %v", p.name, p.err)
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
		case <-on.ended:
			t.Fatalf("%s: %s ended (%v)", what, on.name, errors.Join(err, on.err))
		case <-late.C:
			t.Fatalf("%s: %v", what, err)
		case <-again.C:
		}
	}
}
