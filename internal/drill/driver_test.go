package drill

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// driverRole makes a process of this binary a driver, driverOrders says what it is to do.
const (
	driverRole   = "LINGUA_DRILL_DRIVER"
	driverOrders = "LINGUA_DRILL_ORDERS"
)

// orders is what a driver is to do.
type orders struct {
	URL     string
	Journal string
	Name    string // begins the names of all its nodes, sessions or callers
	Life    int    // how often the driver was started before
	Count   int
	Slots   int           // of each node
	Every   time.Duration // between utterances of a session, or calls of a caller
	Seed    uint64
}

// drive is a driver's main: it says ready when everybody is there, and takes everybody home when its input ends.
func drive(role string) error {
	var o orders
	if err := json.Unmarshal([]byte(os.Getenv(driverOrders)), &o); err != nil {
		return fmt.Errorf("%s: %w", driverOrders, err)
	}
	j, err := openJournal(o.Journal)
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	ready := func() { fmt.Println("ready") }
	switch role {
	case "nodes":
		err = driveNodes(work, o, j, ready)
	case "sessions":
		err = driveSessions(work, o, j, ready)
	case "callers":
		err = driveCallers(work, o, j, ready)
	case "callbacks":
		err = driveCallbacks(work, o, j, ready)
	default:
		err = fmt.Errorf("there is no driver of %s", role)
	}
	return errors.Join(err, j.close())
}

// driver is a driver's process, seen from the drill.
type driver struct {
	role  string
	proc  *process
	in    io.Closer
	ready chan error
	path  string // of the journal
	log   string
}

// startDriver starts one. It is ended with the test at the latest.
func startDriver(tb testing.TB, role, dir string, o orders) *driver {
	tb.Helper()
	d := &driver{role: role, ready: make(chan error, 1), path: filepath.Join(dir, fmt.Sprintf("%s.%d.journal", o.Name, o.Life)), log: filepath.Join(dir, fmt.Sprintf("%s.%d.log", o.Name, o.Life))}
	o.Journal = d.path
	text, err := json.Marshal(o)
	if err != nil {
		tb.Fatal(err)
	}
	log, err := os.Create(d.log)
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close() // the process has its own
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), driverRole+"="+role, driverOrders+"="+string(text))
	cmd.Stderr = log
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		tb.Fatal(err)
	}
	d.in = in
	if d.proc, err = spawn(cmd); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		d.proc.End()
		if tb.Failed() {
			tb.Logf("the end of the log of the driver of %s:\n%s", role, tail(d.log, 15))
		}
	})
	go func() {
		line, err := bufio.NewReader(out).ReadString('\n')
		if line != "ready\n" {
			err = errors.Join(fmt.Errorf("the driver of %s said %q", role, line), err)
		}
		d.ready <- err
	}()
	return d
}

// await waits until everybody is there.
func (d *driver) await(within time.Duration) error {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case err := <-d.ready:
		return err
	case <-t.C:
		return fmt.Errorf("the driver of %s is not ready within %v", d.role, within)
	}
}

// home takes everybody home and returns what they saw.
func (d *driver) home(within time.Duration) ([]entry, error) {
	_ = d.in.Close()
	if err := d.proc.within(within); err != nil {
		d.proc.End()
		all, _ := readJournal(d.path) // what there is of it
		return all, fmt.Errorf("the driver of %s: %w", d.role, err)
	}
	return readJournal(d.path)
}

// tail is the end of a log.
func tail(path string, lines int) string {
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
