package drill

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lingua-scheduler/lingua/internal/child"
)

// startWithin is generous: under the race detector, on a busy machine, a start takes seconds.
const startWithin = 30 * time.Second

// instance is one scheduler, and the place where it is started again.
type instance struct {
	name   string
	port   int
	binary string
	config string
	env    []string
	log    string
	asks   *http.Client

	proc  *process // of the test's own goroutine
	lives int
}

func (i *instance) addr() string { return child.Address(i.port) }

func (i *instance) url() string { return "http://" + i.addr() }

// start starts it where it was, and returns when it is ready.
func (i *instance) start(ctx context.Context) error {
	log, err := os.OpenFile(i.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	i.lives++
	fmt.Fprintf(log, "--- life %d\n", i.lives)
	cmd := exec.Command(i.binary, "serve", "--config", i.config)
	cmd.Env = append(os.Environ(), i.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if i.proc, err = spawn(cmd); err != nil {
		return err
	}
	return eventually(ctx, startWithin, func() error {
		if !i.proc.Alive() {
			return fmt.Errorf("instance %s ended at its start: %w\n%s", i.name, i.proc.How, tail(i.log, 10))
		}
		return i.ready(ctx)
	})
}

// ready says why it is not.
func (i *instance) ready(ctx context.Context) error {
	body, err := i.get(ctx, "/readyz")
	if err != nil {
		return fmt.Errorf("instance %s is not ready: %w %.100s", i.name, err, body)
	}
	return nil
}

// get asks it something.
func (i *instance) get(ctx context.Context, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, i.url()+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := i.asks.Do(r)
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

// kill is a power cut.
func (i *instance) kill() { i.proc.End() }

// leave asks it to stop in good order, and returns when it has.
func (i *instance) leave(within time.Duration) error {
	if err := i.proc.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return i.proc.within(within)
}

// gauges reads its metrics: the sum of each name.
func (i *instance) gauges(ctx context.Context) (map[string]float64, error) {
	body, err := i.get(ctx, "/metrics")
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
