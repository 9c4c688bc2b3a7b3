package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is one run of a program.
type process struct {
	*os.Process
	ended chan struct{} // closed when it was waited for
	how   error         // it ended; to be read after that
}

// spawn starts a command that dies with this process. Linux takes the thread that made a child for its parent, so one
// thread starts it and stays until it has ended.
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
			p.how = cmd.Wait()
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

// end kills it, whether it runs or is stopped, and returns when it is gone.
func (p *process) end() {
	_ = p.Kill() // it may have ended by itself
	<-p.ended
}

// halt stops it where it is, and returns when it has.
func (p *process) halt(ctx context.Context) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return eventually(ctx, 5*time.Second, func() error {
		if !halted(p.Pid) {
			return fmt.Errorf("process %d does not stop", p.Pid)
		}
		return nil
	})
}

// within waits until it has ended.
func (p *process) within(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.ended:
		return p.how
	case <-t.C:
		return fmt.Errorf("process %d has not ended within %v", p.Pid, d)
	}
}

// pollEvery is how often a state of another process is looked at: it has no way to tell us.
const pollEvery = 20 * time.Millisecond

// eventually looks at a state until nothing is missing. What is missing at the end is the error.
func eventually(ctx context.Context, within time.Duration, missing func() error) error {
	return eventuallyEvery(ctx, pollEvery, within, missing)
}

// eventuallyEvery does so less often, where looking costs more.
func eventuallyEvery(ctx context.Context, every, within time.Duration, missing func() error) error {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		err := missing()
		if err == nil {
			return nil
		}
		select {
		case <-deadline.C:
			return fmt.Errorf("not within %v: %w", within, err)
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-again.C:
		}
	}
}
