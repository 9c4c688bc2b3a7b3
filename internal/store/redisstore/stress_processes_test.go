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

// crew is the schedulers that work at once, each a process of its own. Whoever is killed is replaced.
type crew struct {
	tb      testing.TB
	url     string
	prefix  string
	binary  string
	heard   func(*member, note)
	answer  func(note) note
	arrived *sync.Cond // a member is ready, or the crew was dismissed

	mu      sync.Mutex
	members []*member
	hired   int
	calls   int64 // of those who are gone
	off     bool  // dismissed: nobody works
}

// member is one process.
type member struct {
	*pipe
	process *os.Process
	errors  bytes.Buffer  // what it wrote where nothing should be written
	gone    chan struct{} // closed when it was waited for

	// Guarded by the crew.
	ready  bool
	killed bool
	made   int64 // calls to the store
}

const crewSize = 4

func newCrew(tb testing.TB, url, prefix string, heard func(*member, note), answer func(note) note) *crew {
	binary, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	c := &crew{tb: tb, url: url, prefix: prefix, binary: binary, heard: heard, answer: answer, off: true}
	c.arrived = sync.NewCond(&c.mu)
	tb.Cleanup(c.dismiss)
	return c
}

// fill hires until the crew is complete.
func (c *crew) fill() {
	c.mu.Lock()
	c.off = false
	missing := crewSize - len(c.members)
	c.mu.Unlock()
	for range missing {
		c.hire()
	}
}

// hire starts one process. It works when it says so.
func (c *crew) hire() {
	c.tb.Helper()
	c.mu.Lock()
	c.hired++
	name := fmt.Sprintf("s%d", c.hired)
	c.mu.Unlock()

	m := &member{gone: make(chan struct{})}
	cmd := exec.Command(c.binary)
	cmd.Env = append(os.Environ(), crowdOrders+"="+c.url+" "+c.prefix+" "+name)
	cmd.Stderr = &m.errors
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
	m.process, m.pipe = cmd.Process, newPipe(in, nil)
	c.mu.Lock()
	c.members = append(c.members, m)
	c.mu.Unlock()
	go func() {
		defer close(m.gone)
		m.serve(out, func(n note) { c.note(m, n) }, c.answer)
		_, _ = io.Copy(io.Discard, out)
		c.ended(m, cmd.Wait())
	}()
}

// ended takes in that a process is gone. Nothing but a kill may end it, and it has nothing to say beside its lines: a
// panic or a race would be told there.
func (c *crew) ended(m *member, err error) {
	c.mu.Lock()
	killed := m.killed
	m.ready = false
	c.mu.Unlock()
	if !killed || m.errors.Len() > 0 {
		c.tb.Errorf("a scheduler ended (%v, killed: %v) and had written:\n%s", err, killed, m.errors.String())
	}
}

// note takes in a line of a member.
func (c *crew) note(m *member, n note) {
	c.mu.Lock()
	m.made = max(m.made, n.Calls)
	if n.Kind == "ready" {
		m.ready = true
		c.arrived.Broadcast()
	}
	c.mu.Unlock()
	c.heard(m, n)
}

// pick returns some member that works, and waits for one if there is none. It returns nil when the crew is dismissed.
func (c *crew) pick() *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.off {
		var ready []*member
		for _, m := range c.members {
			if m.ready {
				ready = append(ready, m)
			}
		}
		if len(ready) > 0 {
			return ready[rand.IntN(len(ready))]
		}
		c.arrived.Wait()
	}
	return nil
}

// ask puts a question to some member, and to another if that one dies over it: nobody can know how far it got. It
// reports false when the crew is dismissed.
func (c *crew) ask(n note) (note, bool) {
	for {
		m := c.pick()
		if m == nil {
			return note{}, false
		}
		if a, ok := m.ask(n); ok {
			return a, true
		}
	}
}

// kill ends one member at once, as a power cut would, and hires another.
func (c *crew) kill(m *member) {
	c.tb.Helper()
	c.end(m)
	c.hire()
}

// end kills a member and returns when it is gone.
func (c *crew) end(m *member) {
	c.mu.Lock()
	m.ready, m.killed = false, true
	c.mu.Unlock()
	_ = m.process.Kill() // one that ended by itself was told of
	<-m.gone
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls += m.made
	for i := range c.members {
		if c.members[i] == m {
			c.members = append(c.members[:i], c.members[i+1:]...)
			break
		}
	}
}

// dismiss kills all members at once and lets everybody go who waits for one.
func (c *crew) dismiss() {
	c.mu.Lock()
	c.off = true
	members := append([]*member(nil), c.members...)
	c.arrived.Broadcast()
	c.mu.Unlock()
	var ends sync.WaitGroup
	for _, m := range members {
		ends.Go(func() { c.end(m) })
	}
	ends.Wait()
}

// operations is how many calls to the store were made and told of.
func (c *crew) operations() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := c.calls
	for _, m := range c.members {
		total += m.made
	}
	return total
}
