package redistest

import (
	"os"
	"os/exec"
	"runtime"
)

// process is one run of a program.
type process struct {
	*os.Process
	ended chan struct{} // closed when it was waited for
}

// spawn starts a command and waits for its end in the background.
//
// A child is told to die with its parent, so that a test binary that panics or is killed leaves no server
// behind. Linux takes the thread that made the child for its parent, so one thread starts it and stays until
// it has ended.
func spawn(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = dieWithParent()
	p := &process{ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.ended)
		err := cmd.Start()
		p.Process = cmd.Process
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// end kills it, whether it runs or is stopped, and returns when it is gone and its ports are free.
func (p *process) end() {
	_ = p.Kill() // it may have ended by itself
	<-p.ended
}
