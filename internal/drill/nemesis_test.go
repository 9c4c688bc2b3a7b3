package drill

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
)

// fault is something that is done to a cluster. Begin does it and returns what undoes it.
type fault struct {
	name   string
	hold   time.Duration // from its begin to its end
	within time.Duration // every utterance that it touches has its terminal message so long after the fault began, or after it was said
	codes  []string      // with which utterances may fail that it touches
	loses  bool          // it may cost the store its last moment: see docs/redis.md
	begin  func(c *cluster) (struck string, undo func())
}

// strike is one fault that was done.
type strike struct {
	fault
	struck       string
	from, to     int64         // on the drill's clock
	caughtUp     time.Duration // after its end, until nothing from before it waited in an inbox
	caughtUpLate error
	back         time.Duration // after its end, until all nodes were connected
	backLate     error
}

// String names it.
func (s *strike) String() string {
	return fmt.Sprintf("%s (%s, %v)", s.name, s.struck, time.Duration(s.to-s.from).Round(10*time.Millisecond))
}

// pendingWithin is how long after a fault a message may wait in an inbox.
const pendingWithin = 60 * time.Second

// backWithin is how long after a fault all nodes are connected again.
const backWithin = 20 * time.Second

// strike does a fault from its begin to its end, and waits until the inboxes have caught up.
func (c *cluster) strike(f fault) *strike {
	c.tb.Helper()
	s := &strike{fault: f, from: now()}
	if len(c.instances) == 1 {
		s.within += f.hold // there is nobody else meanwhile
	}
	var undo func()
	s.struck, undo = f.begin(c)
	backoff.Sleep(c.tb.Context(), f.hold-time.Duration(now()-s.from))
	undo()
	s.to = now()
	s.caughtUpLate = c.catchUp()
	s.caughtUp = time.Duration(now() - s.to)
	s.backLate = c.complete()
	s.back = time.Duration(now() - s.to)
	return s
}

// complete waits until all nodes are connected.
func (c *cluster) complete() error {
	return eventually(c.tb.Context(), backWithin, func() error {
		here := 0.0
		for _, i := range c.instances {
			gauges, err := i.gauges(c.tb.Context())
			if err != nil {
				return err
			}
			here += gauges["lingua_connected_nodes"]
		}
		if int(here) < c.nodeCount {
			return fmt.Errorf("%.0f of %d nodes are connected", here, c.nodeCount)
		}
		return nil
	})
}

// catchUp waits until everything that was in an inbox is done with. What came since does not count: there is load.
func (c *cluster) catchUp() error {
	var since int64
	return eventually(c.tb.Context(), pendingWithin, func() (err error) {
		if since == 0 {
			if since, err = c.redis.clock(); err != nil {
				return err
			}
		}
		b, err := c.redis.backlog()
		if err == nil && b.oldest != 0 && b.oldest <= since {
			err = fmt.Errorf("%d messages are pending and %d wait, the oldest in %s", b.pending, b.waiting, b.where)
		}
		return err
	})
}

// killed is kill -9 of an instance, which is started again later.
func killed(hold time.Duration) fault {
	return fault{name: "kill", hold: hold, within: 10 * time.Second, begin: func(c *cluster) (string, func()) {
		i := c.target()
		i.kill()
		return i.name, func() { c.need(i.start(c.tb.Context())) }
	}}
}

// stopped is an instance that does nothing for three times as long as it is believed to be there, and then goes on as if
// nothing had been. The balancer gives it up, as one does, and half of those who were connected to it with it.
func stopped(presence time.Duration) fault {
	return fault{name: "stop", hold: 3 * presence, within: 3*presence + 10*time.Second, begin: func(c *cluster) (string, func()) {
		i := c.busiest()
		moved := c.halt(i)
		return fmt.Sprintf("%s, %d connections moved", i.name, moved), func() { c.need(i.proc.Signal(syscall.SIGCONT)) }
	}}
}

// halt stops an instance, waits until the balancers give it up, and cuts every other connection to it.
func (c *cluster) halt(i *instance) (moved int) {
	c.need(i.proc.halt(c.tb.Context()))
	for _, b := range []*balancer{c.nodes, c.people} {
		c.need(eventually(c.tb.Context(), 10*time.Second, func() error {
			if b.sees(i) {
				return errors.New("the balancer still sends people to " + i.name)
			}
			return nil
		}))
		n := 0
		moved += b.cut(func(p *pair) bool {
			if p.to.instance != i {
				return false
			}
			n++
			return n%2 == 0
		})
	}
	return moved
}

// delayed is the same to an instance whose last words are on their way to Redis meanwhile. They arrive when everything it
// had is others', and before it goes on itself: nothing of its own can hold them back any more.
func delayed(presence time.Duration) fault {
	f := stopped(presence)
	f.codes = down // whoever stays with it may have waited in vain for as long as an utterance waits
	f.name, f.begin = "delay", func(c *cluster) (string, func()) {
		i := c.busiest()
		link := c.redis.links[c.index(i)]
		link.Freeze(true)
		backoff.Sleep(c.tb.Context(), 800*time.Millisecond) // they speak on
		moved := c.halt(i)
		return fmt.Sprintf("%s, %d connections moved", i.name, moved), func() {
			link.Freeze(false)
			backoff.Sleep(c.tb.Context(), 100*time.Millisecond)
			c.need(i.proc.Signal(syscall.SIGCONT))
		}
	}
	return f
}

// down are the codes with which utterances may end that no store could be found for. The last is one of them because
// nodes whose heartbeats could not be written are not trusted with anything new until the next.
var down = []string{"SCHEDULER_DEPENDENCY_DOWN", "DEADLINE_EXCEEDED", "ALL_CANDIDATES_FULL_OR_FAILED"}

// unlinked is an instance that cannot reach Redis: its connections are closed and refused, or nothing passes.
func unlinked(hold time.Duration, frozen bool) fault {
	name := "unlink"
	if frozen {
		name = "freeze"
	}
	return fault{name: name, hold: hold, within: hold + 15*time.Second, codes: down, begin: func(c *cluster) (string, func()) {
		i := c.target()
		link := c.redis.links[c.index(i)]
		if frozen {
			link.Freeze(true)
			return i.name, func() { link.Freeze(false) }
		}
		link.Refuse(true)
		return i.name, func() { link.Refuse(false) }
	}}
}

// deposed is a Redis primary that dies and comes back as a replica.
func deposed() fault {
	const failover = 30 * time.Second
	return fault{name: "depose", within: failover, codes: down, loses: true, begin: func(c *cluster) (string, func()) {
		server := c.redis.kill(c.dice.IntN(3))
		return server.Addr(), func() {
			c.redis.healthy(failover)
			server.Restart()
			c.redis.healthy(failover)
		}
	}}
}

// paused is a Redis that does nothing for a while. Where there are replicas one of them may take over meanwhile, and what
// the paused one was sent is lost.
func paused(hold time.Duration) fault {
	return fault{name: "pause", hold: hold, within: hold + 25*time.Second, codes: down, loses: *drillTopology != "standalone", begin: func(c *cluster) (string, func()) {
		all := c.redis.primaries()
		server := all[c.dice.IntN(len(all))]
		server.Stop()
		return server.Addr(), func() {
			server.Continue()
			c.redis.healthy(30 * time.Second)
		}
	}}
}

// cut is connections of nodes and sessions that are lost, one after the other.
func cut(hold time.Duration) fault {
	return fault{name: "cut", within: 10 * time.Second, begin: func(c *cluster) (string, func()) {
		var nodes, people int
		for end := time.Now().Add(hold); time.Now().Before(end) && backoff.SleepJitter(c.tb.Context(), 150*time.Millisecond, 0.9); {
			some := func(left int) func(*pair) bool { // maps are walked in random order
				return func(*pair) bool { left--; return left >= 0 }
			}
			people += c.people.cut(some(1 + c.dice.IntN(3)))
			if c.dice.IntN(6) == 0 {
				nodes += c.nodes.cut(some(1))
			}
		}
		return fmt.Sprintf("%d of nodes, %d of sessions", nodes, people), func() {}
	}}
}

// rolled is every instance in turn: asked to stop, gone, started, ready, and the next. An utterance may meet each of the
// three, and has the time that each may cost it.
func rolled() fault {
	return fault{name: "roll", within: 3 * 10 * time.Second, begin: func(c *cluster) (string, func()) {
		for _, i := range c.instances {
			c.need(i.leave(20 * time.Second))
			c.need(i.start(c.tb.Context()))
			c.need(eventually(c.tb.Context(), 10*time.Second, func() error {
				if !c.nodes.sees(i) || !c.people.sees(i) {
					return errors.New("the balancer does not see that " + i.name + " is back")
				}
				return nil
			}))
		}
		return fmt.Sprintf("%d instances", len(c.instances)), func() {}
	}}
}

// died is some of the nodes, with all they were working on. They come back and know nothing of it.
func died(hold time.Duration) fault {
	return fault{name: "die", hold: hold, within: 15 * time.Second, begin: func(c *cluster) (string, func()) {
		c.mortals.kill()
		return fmt.Sprintf("%d nodes", c.mortals.o.Count), func() { c.need(c.mortals.start(c)) }
	}}
}

// both is two faults at once, the one in the middle of the other.
func both(a, b fault) fault {
	return fault{
		name: a.name + " and " + b.name, hold: max(a.hold, b.hold), within: a.within + b.within,
		codes: append(slices.Clone(a.codes), b.codes...), loses: a.loses || b.loses,
		begin: func(c *cluster) (string, func()) {
			first, undoFirst := a.begin(c)
			second, undoSecond := b.begin(c)
			return first + " and " + second, func() {
				undoFirst()
				undoSecond()
			}
		},
	}
}

// target is whom a fault strikes. Where it is watched whether anything grows, one of several instances is spared, so that
// somebody lives long enough to show it.
func (c *cluster) target() *instance {
	spared := 0
	if c.watched && len(c.instances) > 1 {
		spared = 1
	}
	return c.instances[spared+c.dice.IntN(len(c.instances)-spared)]
}

// busiest is, of those whom a fault may strike, the instance that most sessions are connected with: what it does late
// matters most.
func (c *cluster) busiest() *instance {
	busy := c.target()
	for _, i := range c.instances {
		if (i != c.instances[0] || !c.watched) && c.people.with(i) > c.people.with(busy) {
			busy = i
		}
	}
	return busy
}

// touching are the strikes during which, or after which in the time they are given, something happened.
func touching(all []*strike, from, to int64) []*strike {
	return slices.DeleteFunc(slices.Clone(all), func(s *strike) bool { return to < s.from || from > s.to+int64(s.within) })
}
