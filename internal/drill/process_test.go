package drill

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/lingua-scheduler/lingua/internal/child"
)

// process is one run of a program.
type process struct{ *child.Process }

// spawn starts a command that dies with this process.
func spawn(cmd *exec.Cmd) (*process, error) {
	p, err := child.Start(cmd)
	return &process{p}, err
}

// halt stops it where it is, and returns when it has.
func (p *process) halt(ctx context.Context) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return eventually(ctx, 5*time.Second, func() error {
		if !p.Halted() {
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
	case <-p.Ended:
		return p.How
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
