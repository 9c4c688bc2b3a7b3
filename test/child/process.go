// Package child runs other programs for tests: processes that end with the test, and ports that are reserved for them.
package child

import (
	"os"
	"os/exec"
	"runtime"
)

// Process is one run of a program.
type Process struct {
	*os.Process
	Exited  chan struct{} // closed after the process has exited
	ExitErr error         // how it exited; to be read after Exited is closed
}

// Start starts a command and waits for its exit in the background.
//
// The kernel kills the child when its parent ends, so that a test binary that panics or is killed leaves no process behind. Linux
// takes the thread that started the child for its parent, so one thread starts it and stays until the child has exited.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = killWithParent()
	p := &Process{Exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.Exited)
		err := cmd.Start()
		p.Process = cmd.Process
		started <- err
		if err == nil {
			p.ExitErr = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Alive reports whether the process has not exited.
func (p *Process) Alive() bool {
	select {
	case <-p.Exited:
		return false
	default:
		return true
	}
}

// KillAndWait kills the process, running or stopped, and returns when it has exited and its ports are free.
func (p *Process) KillAndWait() {
	_ = p.Kill() // it may have exited already
	<-p.Exited
}

// Stopped reports whether the process has stopped after a SIGSTOP. The signal is only a request: the process may answer one
// more command before the kernel stops it.
func (p *Process) Stopped() bool { return stopped(p.Pid) }
