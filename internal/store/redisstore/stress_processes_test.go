package redisstore_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// processGroup runs schedulers, each in a process of its own, and replaces those that are killed.
type processGroup struct {
	tb        testing.TB
	url       string
	prefix    string
	binary    string
	onMessage func(*schedulerProcess, rpcMessage)
	onRequest func(rpcMessage) rpcMessage
	changed   *sync.Cond // a process is ready, or the group was stopped

	mu      sync.Mutex
	running []*schedulerProcess
	started int
	calls   int64 // of the processes that have ended
	stopped bool
}

// schedulerProcess is one process.
type schedulerProcess struct {
	*rpcConn
	process *os.Process
	stderr  bytes.Buffer  // must stay empty: a panic or a data race would be reported there
	exited  chan struct{} // closed when it has ended

	// Guarded by the group's mutex.
	ready  bool
	killed bool
	calls  int64 // calls to the store
}

const processCount = 4

func newProcessGroup(tb testing.TB, url, prefix string, onMessage func(*schedulerProcess, rpcMessage), onRequest func(rpcMessage) rpcMessage) *processGroup {
	binary, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	c := &processGroup{tb: tb, url: url, prefix: prefix, binary: binary, onMessage: onMessage, onRequest: onRequest, stopped: true}
	c.changed = sync.NewCond(&c.mu)
	tb.Cleanup(c.stopAll)
	return c
}

// start starts processes until the group is complete.
func (c *processGroup) start() {
	c.mu.Lock()
	c.stopped = false
	missing := processCount - len(c.running)
	c.mu.Unlock()
	for range missing {
		c.startOne()
	}
}

// startOne starts one process. It gets requests after it has reported that it is ready.
func (c *processGroup) startOne() {
	c.tb.Helper()
	c.mu.Lock()
	c.started++
	name := fmt.Sprintf("s%d", c.started)
	c.mu.Unlock()

	m := &schedulerProcess{exited: make(chan struct{})}
	cmd := exec.Command(c.binary)
	cmd.Env = append(os.Environ(), stressProcessEnv+"="+c.url+" "+c.prefix+" "+name)
	cmd.Stderr = &m.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		c.tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.tb.Fatal(err)
	}
	m.process, m.rpcConn = cmd.Process, newRPCConn(in, nil)
	c.mu.Lock()
	c.running = append(c.running, m)
	c.mu.Unlock()
	go func() {
		defer close(m.exited)
		m.serve(out, func(n rpcMessage) { c.handleMessage(m, n) }, c.onRequest)
		_, _ = io.Copy(io.Discard, out)
		c.recordExit(m, cmd.Wait())
	}()
}

// recordExit records that a process has ended. Only a kill may end it, and its stderr must be empty.
func (c *processGroup) recordExit(m *schedulerProcess, err error) {
	c.mu.Lock()
	killed := m.killed
	m.ready = false
	c.mu.Unlock()
	if !killed || m.stderr.Len() > 0 {
		c.tb.Errorf("a scheduler ended (%v, killed: %v) and wrote to stderr:\n%s", err, killed, m.stderr.String())
	}
}

// handleMessage handles a message of a process.
func (c *processGroup) handleMessage(m *schedulerProcess, n rpcMessage) {
	c.mu.Lock()
	m.calls = max(m.calls, n.Calls)
	if n.Kind == "ready" {
		m.ready = true
		c.changed.Broadcast()
	}
	c.mu.Unlock()
	c.onMessage(m, n)
}

// pick returns a random process that is ready, and waits for one if there is none. It returns nil when the group was stopped.
func (c *processGroup) pick() *schedulerProcess {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.stopped {
		var ready []*schedulerProcess
		for _, m := range c.running {
			if m.ready {
				ready = append(ready, m)
			}
		}
		if len(ready) > 0 {
			return ready[rand.IntN(len(ready))]
		}
		c.changed.Wait()
	}
	return nil
}

// call sends a request to a random process, and to another one if that one is killed meanwhile, with unknown progress. It reports false
// when the group was stopped.
func (c *processGroup) call(n rpcMessage) (rpcMessage, bool) {
	for {
		m := c.pick()
		if m == nil {
			return rpcMessage{}, false
		}
		if a, ok := m.call(n); ok {
			return a, true
		}
	}
}

// kill kills a process with SIGKILL and starts another.
func (c *processGroup) kill(m *schedulerProcess) {
	c.tb.Helper()
	c.stop(m)
	c.startOne()
}

// stop kills a process and waits for its end.
func (c *processGroup) stop(m *schedulerProcess) {
	c.mu.Lock()
	m.ready, m.killed = false, true
	c.mu.Unlock()
	_ = m.process.Kill() // an unexpected end was reported by recordExit
	<-m.exited
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls += m.calls
	for i := range c.running {
		if c.running[i] == m {
			c.running = append(c.running[:i], c.running[i+1:]...)
			break
		}
	}
}

// stopAll kills all processes and wakes the callers that wait for one.
func (c *processGroup) stopAll() {
	c.mu.Lock()
	c.stopped = true
	members := append([]*schedulerProcess(nil), c.running...)
	c.changed.Broadcast()
	c.mu.Unlock()
	var ends sync.WaitGroup
	for _, m := range members {
		ends.Go(func() { c.stop(m) })
	}
	ends.Wait()
}

// operations returns how many calls to the store the processes have reported.
func (c *processGroup) operations() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := c.calls
	for _, m := range c.running {
		total += m.calls
	}
	return total
}
