package clustertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/test/child"
)

// StartTimeout is how long a process may take to become ready. It is generous: under the race detector, on a busy machine, a
// start takes seconds.
const StartTimeout = 30 * time.Second

// Instance is one instance of the scheduler, which can be started again at the same address after it has stopped.
type Instance struct {
	Name    string
	LogPath string   // all starts append to it
	Args    []string // of `lingua serve`, beside --listen
	Env     []string // in addition to the environment of the test

	API *lab.API // of the running process

	binary string
	port   int
	client *http.Client

	Process *Process // of the last start; to be used from the test's own goroutine
	starts  int
}

// NewInstance describes an instance on a free port. Start starts it; it stops at the end of the test, and the end of its log
// is printed if the test failed.
func NewInstance(tb testing.TB, name, binary, logPath string) *Instance {
	tb.Helper()
	i := &Instance{
		Name: name, LogPath: logPath, binary: binary, port: child.Port(tb),
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second},
	}
	i.API = lab.NewAPI(i.URL())
	tb.Cleanup(func() {
		i.API.Close()
		if i.Process != nil {
			i.Process.KillAndWait()
		}
		if tb.Failed() {
			tb.Logf("the end of the log of instance %s:\n%s", i.Name, LogTail(i.LogPath, 25))
		}
	})
	return i
}

// Addr returns the address at which the instance listens, as host:port.
func (i *Instance) Addr() string { return child.Address(i.port) }

// URL returns the base URL of the instance.
func (i *Instance) URL() string { return "http://" + i.Addr() }

// Start starts the process and returns when the instance is ready.
func (i *Instance) Start(ctx context.Context) error {
	if err := i.Launch(); err != nil {
		return err
	}
	return i.WaitReady(ctx)
}

// Launch starts the process and returns at once.
func (i *Instance) Launch() error {
	log, err := os.OpenFile(i.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor
	i.starts++
	fmt.Fprintf(log, "--- start %d\n", i.starts)
	args := append([]string{"serve", "--listen", i.Addr()}, i.Args...)
	cmd := exec.Command(i.binary, args...) //nolint:noctx // it outlives the call
	cmd.Env = append(os.Environ(), i.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	i.Process, err = StartProcess(cmd)
	return err
}

// WaitReady waits until a launched instance is ready.
func (i *Instance) WaitReady(ctx context.Context) error {
	return Eventually(ctx, StartTimeout, func() error {
		if !i.Process.Alive() {
			return fmt.Errorf("instance %s exited during its start: %w\n%s", i.Name, i.Process.ExitErr, LogTail(i.LogPath, 10))
		}
		return i.CheckReady(ctx)
	})
}

// CheckReady returns why the instance is not ready, or nil.
func (i *Instance) CheckReady(ctx context.Context) error {
	body, err := i.Get(ctx, "/readyz")
	if err != nil {
		return fmt.Errorf("instance %s is not ready: %w %.100s", i.Name, err, body)
	}
	return nil
}

// Get reads a path of the instance over HTTP. A status other than 200 is an error.
func (i *Instance) Get(ctx context.Context, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, i.URL()+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := i.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return body, err
}

// Read reads a path of the instance over HTTP and decodes the answer.
func (i *Instance) Read(ctx context.Context, path string, out any) error {
	text, err := i.Get(ctx, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, out)
}

// Kill ends the process with SIGKILL and waits for its end.
func (i *Instance) Kill() { i.Process.KillAndWait() }

// Terminate sends SIGTERM and waits until the instance has shut down.
func (i *Instance) Terminate(timeout time.Duration) error {
	if err := i.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return i.Process.WaitExit(timeout)
}

// Metrics reads /metrics and returns the sum of all series of each name.
func (i *Instance) Metrics(ctx context.Context) (map[string]float64, error) {
	body, err := i.Get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	sums := make(map[string]float64)
	for lines := bufio.NewScanner(strings.NewReader(string(body))); lines.Scan(); {
		line := lines.Text()
		cut := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || cut < 0 {
			continue
		}
		name, _, _ := strings.Cut(line[:cut], "{")
		if v, err := strconv.ParseFloat(line[cut+1:], 64); err == nil {
			sums[name] += v
		}
	}
	return sums, nil
}
