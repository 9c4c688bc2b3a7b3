package clustertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/lingua-scheduler/lingua/test/child"
	"github.com/lingua-scheduler/lingua/test/stalltest"
)

// Process is one run of a program. The kernel kills it when the test binary ends.
type Process struct{ *child.Process }

// StartProcess starts a command.
func StartProcess(cmd *exec.Cmd) (*Process, error) {
	p, err := child.Start(cmd)
	return &Process{p}, err
}

// Stop sends SIGSTOP and returns when the process has stopped.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return Eventually(ctx, 5*time.Second, func() error {
		if !p.Stopped() {
			return fmt.Errorf("process %d does not stop", p.Pid)
		}
		return nil
	})
}

// Continue sends SIGCONT: a stopped process goes on.
func (p *Process) Continue() error { return p.Signal(syscall.SIGCONT) }

// WaitExit waits until the process has exited, and returns how.
func (p *Process) WaitExit(timeout time.Duration) error {
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-p.Exited:
		return p.ExitErr
	case <-t.C:
		return fmt.Errorf("process %d has not exited within %v", p.Pid, timeout)
	}
}

// Helper is a process of the test binary itself, in another role. Lines pass in both directions, and the helper ends
// when its standard input does.
type Helper struct {
	*Process
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

// StartHelper starts a helper. The environment names its role, for which TestMain has to look.
func StartHelper(stderr io.Writer, environment ...string) (*Helper, error) {
	cmd := exec.Command(os.Args[0]) //nolint:noctx // it outlives the call
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h := &Helper{stdin: stdin, stdout: bufio.NewReader(stdout)}
	h.Process, err = StartProcess(cmd)
	return h, err
}

// ReadLine reads the next line that the helper prints, without its end.
func (h *Helper) ReadLine() (string, error) {
	line, err := h.stdout.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

// WriteLine writes a line to the standard input of the helper.
func (h *Helper) WriteLine(line []byte) error {
	_, err := h.stdin.Write(append(line, '\n'))
	return err
}

// CloseInput ends the standard input, which asks the helper to end.
func (h *Helper) CloseInput() { _ = h.stdin.Close() }

// pollInterval is how often the state of another process is read, which cannot notify the test.
const pollInterval = 20 * time.Millisecond

// Eventually calls check until it returns nil. After the timeout it returns the last error of check. Time in which this process
// should have run and got no processor does not count: the machine was busy or stood still, and the other processes with it.
func Eventually(ctx context.Context, timeout time.Duration, check func() error) error {
	return EventuallyEvery(ctx, pollInterval, timeout, check)
}

// EventuallyEvery is Eventually with an interval, for a check that costs more.
func EventuallyEvery(ctx context.Context, interval, timeout time.Duration, check func() error) error {
	stalls, stop := stalltest.Start()
	defer stop()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for began := time.Now(); ; {
		err := check()
		if err == nil {
			return nil
		}
		if stalled := stalls.Total(); time.Since(began)-stalled >= timeout {
			return fmt.Errorf("not within %v, and %v in which the machine was stalled: %w", timeout, stalled.Round(time.Millisecond), err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-ticker.C:
		}
	}
}

// LogTail returns the last lines of a file.
func LogTail(path string, lines int) string {
	body, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	from := len(body)
	for n := 0; from > 0; from-- {
		if body[from-1] == '\n' && from < len(body) {
			if n++; n == lines {
				break
			}
		}
	}
	return string(body[from:])
}
