package clustertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
)

// The environment variables that make a process of the test binary a driver.
const (
	driverRoleVariable   = "LINGUA_TEST_DRIVER"
	driverConfigVariable = "LINGUA_TEST_DRIVER_CONFIG"
)

// Roles of drivers.
const (
	SocketNodes    = "socket nodes"
	CallbackNodes  = "callback nodes"
	Sessions       = "sessions"
	Callers        = "callers"
	WaitingCallers = "waiting callers"
)

// DriverConfig is what a driver does.
type DriverConfig struct {
	URL         string
	JournalPath string        // set by StartDriver
	Name        string        // the prefix of the names of all its nodes, sessions or callers
	Run         int           // how often the driver was started before
	Count       int           // of nodes, sessions or callers
	Slots       int           // of each node
	Interval    time.Duration // between two utterances of a session, or two calls of a caller
	Seed        uint64

	Kinds []NodeKind    // of socket nodes, in turn; none: all serve English and Spanish, with Slots
	Work  time.Duration // the mean duration of the work of a socket node on a job; 0: DefaultWork

	Instances []string // URLs of the instances to which waiting callers send their requests; they read the outcomes at URL
	Tenants   []string // of the waiting callers, in turn
}

// NodeKind is what socket nodes have in common.
type NodeKind struct {
	Langs []string
	Slots int
}

// Serves reports whether nodes of the kind can translate between two languages.
func (k NodeKind) Serves(src, tgt string) bool {
	return slices.Contains(k.Langs, src) && slices.Contains(k.Langs, tgt)
}

// KindOf returns the kind of a socket node of the driver.
func (c *DriverConfig) KindOf(node int) NodeKind {
	if len(c.Kinds) == 0 {
		return NodeKind{Langs: []string{"en", "es"}, Slots: c.Slots}
	}
	return c.Kinds[node%len(c.Kinds)]
}

// NodeName returns the name of a node of the driver.
func (c *DriverConfig) NodeName(node int) string { return fmt.Sprintf("%s-%d", c.Name, node) }

// driverFunc is the work of a driver. It calls ready when all its parts are connected, and returns some time after ctx is
// cancelled, when all that it started has ended.
type driverFunc func(ctx context.Context, cfg DriverConfig, j *journal.Writer, ready func()) error

var driverFuncs = map[string]driverFunc{
	SocketNodes: runSocketNodes, CallbackNodes: runCallbackNodes, Sessions: runSessions, Callers: runCallers,
	WaitingCallers: runWaitingCallers,
}

// runAll runs the parts of a driver, and calls ready when each of them has called its own function or has ended.
func runAll(count int, ready func(), run func(i int, isReady func()) error) error {
	var running, notReady sync.WaitGroup
	notReady.Add(count)
	go func() {
		notReady.Wait()
		ready()
	}()
	errs := make([]error, count)
	for i := range errs {
		running.Go(func() {
			isReady := sync.OnceFunc(notReady.Done)
			defer isReady()
			errs[i] = run(i, isReady)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// RunDriver reports whether this process was started as a driver. If so, it runs the driver and returns its error when
// its standard input has ended. TestMain calls it first.
func RunDriver() (isDriver bool, err error) {
	role := os.Getenv(driverRoleVariable)
	if role == "" {
		return false, nil
	}
	run, ok := driverFuncs[role]
	if !ok {
		return true, fmt.Errorf("there is no driver for %s", role)
	}
	var cfg DriverConfig
	if err := json.Unmarshal([]byte(os.Getenv(driverConfigVariable)), &cfg); err != nil {
		return true, fmt.Errorf("%s: %w", driverConfigVariable, err)
	}
	j, err := journal.Create(cfg.JournalPath)
	if err != nil {
		return true, err
	}
	ctx, stop := context.WithCancel(context.Background()) //nolint:forbidigo // the root of this process
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	err = run(ctx, cfg, j, func() { fmt.Println("ready") })
	return true, errors.Join(err, j.Close())
}

// Driver is the process of a driver, as the test sees it.
type Driver struct {
	Role        string
	JournalPath string
	LogPath     string
	helper      *Helper
	ready       chan error
}

// StartDriver starts a driver, which is killed at the end of the test at the latest. Its files are in dir.
func StartDriver(tb testing.TB, role, dir string, cfg DriverConfig) *Driver {
	tb.Helper()
	base := filepath.Join(dir, fmt.Sprintf("%s.%d", cfg.Name, cfg.Run))
	d := &Driver{Role: role, ready: make(chan error, 1), JournalPath: base + ".journal", LogPath: base + ".log"}
	cfg.JournalPath = d.JournalPath
	text, err := json.Marshal(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	log, err := os.Create(d.LogPath)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor
	if d.helper, err = StartHelper(log, driverRoleVariable+"="+role, driverConfigVariable+"="+string(text)); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		d.helper.KillAndWait()
		if tb.Failed() {
			tb.Logf("the end of the log of the driver for %s:\n%s", role, LogTail(d.LogPath, 15))
		}
	})
	go func() {
		line, err := d.helper.ReadLine()
		if line != "ready" {
			err = errors.Join(fmt.Errorf("the driver for %s printed %q instead of ready", role, line), err)
		}
		d.ready <- err
	}()
	return d
}

// WaitReady waits until all nodes, sessions or callers of the driver have started.
func (d *Driver) WaitReady(timeout time.Duration) error {
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case err := <-d.ready:
		return err
	case <-t.C:
		return fmt.Errorf("the driver for %s is not ready within %v", d.Role, timeout)
	}
}

// Process returns the process of the driver.
func (d *Driver) Process() *Process { return d.helper.Process }

// Stop asks the driver to finish, waits for its exit, and returns its journal.
func (d *Driver) Stop(timeout time.Duration) ([]journal.Entry, error) {
	d.helper.CloseInput()
	if err := d.helper.WaitExit(timeout); err != nil {
		d.helper.KillAndWait()
		all, _ := journal.Read(d.JournalPath) // as far as it was written
		return all, fmt.Errorf("the driver for %s: %w", d.Role, err)
	}
	return journal.Read(d.JournalPath)
}

// NodeGroup is a number of socket nodes that share a driver. They can be killed together and started again under the same
// names.
type NodeGroup struct {
	Config DriverConfig
	Runs   []*Driver
}

// Start starts the nodes and returns when all are connected.
func (g *NodeGroup) Start(c *Cluster) error {
	c.TB.Helper()
	cfg := g.Config
	cfg.Run = len(g.Runs)
	d := StartDriver(c.TB, SocketNodes, c.Dir, cfg)
	g.Runs = append(g.Runs, d)
	return d.WaitReady(StartTimeout)
}

// Kill kills all nodes of the group, whatever they work on.
func (g *NodeGroup) Kill() { g.current().helper.KillAndWait() }

// Process returns the process of the nodes.
func (g *NodeGroup) Process() *Process { return g.current().Process() }

func (g *NodeGroup) current() *Driver { return g.Runs[len(g.Runs)-1] }

// Stop asks the nodes to finish, and returns the journals of all runs.
func (g *NodeGroup) Stop(timeout time.Duration) ([]journal.Entry, error) {
	var all []journal.Entry
	var errs []error
	for _, d := range g.Runs[:len(g.Runs)-1] {
		some, err := journal.Read(d.JournalPath)
		all, errs = append(all, some...), append(errs, err)
	}
	some, err := g.current().Stop(timeout)
	return append(all, some...), errors.Join(append(errs, err)...)
}
