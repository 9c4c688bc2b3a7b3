// Package child is for tests that run other programs: processes that die with the test, and ports that are kept for them.
package child

import (
	"os"
	"os/exec"
	"runtime"
)

// Process is one run of a program.
type Process struct {
	*os.Process
	Ended chan struct{} // closed when it was waited for
	How   error         // it ended; to be read after that
}

// Start runs a command and waits for its end in the background.
//
// A child is told to die with its parent, so that a test binary that panics or is killed leaves nothing behind. Linux
// takes the thread that made the child for its parent, so one thread starts it and stays until it has ended.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = dieWithParent()
	p := &Process{Ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.Ended)
		err := cmd.Start()
		p.Process = cmd.Process
		started <- err
		if err == nil {
			p.How = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Alive reports whether it has not ended.
func (p *Process) Alive() bool {
	select {
	case <-p.Ended:
		return false
	default:
		return true
	}
}

// End kills it, whether it runs or is stopped, and returns when it is gone and its ports are free.
func (p *Process) End() {
	_ = p.Kill() // it may have ended by itself
	<-p.Ended
}

// Halted reports whether it has really stopped after a SIGSTOP: the signal is only a request, and the process may answer
// one more command before it takes notice.
func (p *Process) Halted() bool { return halted(p.Pid) }
