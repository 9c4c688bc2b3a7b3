package scale

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// class is what waiting utterances require of a node.
type class struct {
	id     string
	pool   core.PoolID // whose queue it is in
	spec   core.Spec
	filter pick.Query

	direction int
	waiting   []int // by tenant, without those that have an offer
}

func newClass(fl *fleet.Fleet, direction int, pool core.PoolID) *class {
	c := &class{id: fmt.Sprintf("%s-%02d", cmp.Or(pool, "any"), direction), pool: pool, direction: direction, waiting: make([]int, len(tenantPlans))}
	c.spec.Direction = directionPlans[direction].Direction
	if pool != "" {
		c.spec.Pool = core.JobPool{ID: pool, Bound: true}
	}
	route := fl.Route(c.spec.Direction, false)
	c.filter = pick.Query{Requirement: route.Requirement, Options: &c.spec.Options, Pools: core.NewPoolRule(route.Division, &c.spec)}
	return c
}

// canServe reports whether a node could take an utterance of the class if it had a free slot.
func (c *class) canServe(picker *pick.Picker, n *fleet.Node, now fleet.Instant) bool {
	c.filter.Now = now
	reason := picker.Filter(&c.filter, n)
	return reason == core.ReasonNone || reason.Soft()
}

// openClasses is the copy that instances have of the classes in which utterances wait. It is read once in a millisecond at most, as if all
// releases of a millisecond were one batch.
type openClasses struct {
	picker *pick.Picker
	byID   map[string]*class
	pools  []core.PoolID
	open   map[core.PoolID][]*class
	any    bool
	read   int64
}

// refresh reads the copy again if it is not of this millisecond.
func (c *openClasses) refresh(now int64, queues map[core.PoolID]*fairqueue.Queue) {
	if c.read == now {
		return
	}
	c.read, c.any = now, false
	for _, pool := range c.pools {
		ids := queues[pool].OpenClasses()
		slices.Sort(ids)
		c.open[pool] = c.open[pool][:0]
		for _, id := range ids {
			c.open[pool] = append(c.open[pool], c.byID[id])
		}
		c.any = c.any || len(ids) > 0
	}
}

func (c *openClasses) isOpen(class *class) bool {
	return c.any && slices.Contains(c.open[class.pool], class)
}

// waitingFor says for which nodes utterances wait; nil: nobody waits.
type waitingFor struct {
	*openClasses
	now fleet.Instant
}

func (c *openClasses) waitingFor(now fleet.Instant) *waitingFor {
	if !c.any {
		return nil
	}
	return &waitingFor{c, now}
}

// wants reports whether an utterance waits that a node could serve.
func (w *waitingFor) wants(n *fleet.Node) bool {
	if w == nil {
		return false
	}
	for _, pool := range w.pools {
		for _, c := range w.open[pool] {
			if c.canServe(w.picker, n, w.now) {
				return true
			}
		}
	}
	return false
}

// line lets utterances wait, as the line of package dispatch does.
type line struct {
	*openClasses
	fleet     *fleet.Fleet
	queues    map[core.PoolID]*fairqueue.Queue
	rng       *rand.Rand
	unoffered map[core.PoolID]int   // waiters that have no offer
	instances map[core.PoolID][]int // waiters by instance
	calls     queueCalls
	offered   func(w fairqueue.Waiter, n *node) // an offer was made
}

// queueCalls counts the calls of the queues.
type queueCalls struct{ enqueue, offer, giveBack, dequeue, offers, sweeps int }

// instanceCount is how many instances the sessions are connected to.
const instanceCount = 3

// clockBase is the clock of the queue when the day begins.
const clockBase = 1_000_000_000_000

func newLine(fl *fleet.Fleet, picker *pick.Picker, rng *rand.Rand) *line {
	l := &line{
		openClasses: &openClasses{picker: picker, byID: make(map[string]*class), pools: []core.PoolID{"", boundPool}, open: make(map[core.PoolID][]*class), read: -1},
		fleet:       fl, queues: make(map[core.PoolID]*fairqueue.Queue), rng: rng,
		unoffered: make(map[core.PoolID]int), instances: make(map[core.PoolID][]int),
	}
	for _, pool := range l.pools {
		l.queues[pool] = fairqueue.New()
		l.instances[pool] = make([]int, instanceCount)
		for i := range directionPlans {
			c := newClass(fl, i, pool)
			l.byID[c.id] = c
		}
	}
	return l
}

// enqueue adds an utterance to the queue of its class.
func (l *line) enqueue(now int64, u *utterance, maxWaiting int) fairqueue.EnqueueResult {
	c := u.request.class
	u.waiter = fairqueue.Waiter{
		ID: strconv.FormatUint(uint64(u.index), 10), Class: c.id, Tenant: string(tenantPlans[u.tenant].id), Instance: "i" + strconv.Itoa(u.instance()),
		Since: clockBase + now, Deadline: clockBase + u.deadline,
	}
	l.calls.enqueue++
	r := l.queues[c.pool].Enqueue(clockBase+now, fairqueue.EnqueueParams{
		Waiter: u.waiter, Requirements: c.id, Weight: tenantPlans[u.tenant].weight * fairqueue.WeightScale, MaxWaiting: maxWaiting, Repeat: u.retried, // was accepted
	})
	if r.Verdict == fairqueue.Queued {
		if r.First {
			l.read = -1 // a release reads the copy after it
		}
		l.waiting(u, 1)
		l.instances[c.pool][u.instance()]++
	}
	return r
}

// waiting counts an utterance that waits without an offer, or does no more.
func (l *line) waiting(u *utterance, change int) {
	c := u.request.class
	c.waiting[u.tenant] += change
	l.unoffered[c.pool] += change
}

// freed offers slots of a node. Utterances that are bound to its pool and those that are not have an equal chance to be first.
func (l *line) freed(now int64, n *node, slots int) {
	if l.refresh(now, l.queues); !l.any || n.view == nil {
		return
	}
	pools := []core.PoolID{""}
	if n.group.pool == boundPool {
		pools = append(pools, boundPool)
		l.rng.Shuffle(len(pools), func(i, j int) { pools[i], pools[j] = pools[j], pools[i] })
	}
	for _, pool := range pools {
		classes := l.servable(pool, n)
		for more := len(classes) > 0; more && slots > 0; {
			l.rng.Shuffle(len(classes), func(i, j int) { classes[i], classes[j] = classes[j], classes[i] })
			l.calls.offer++
			r := l.queues[pool].Offer(clockBase+now, slots, classes)
			for _, o := range r.Offers {
				l.calls.offers++
				l.offered(o.Waiter, n)
			}
			slots -= len(r.Offers)
			more = r.More
		}
	}
}

// servable returns the classes that are open in a pool and that a node can serve.
func (l *line) servable(pool core.PoolID, n *node) []string {
	var ids []string
	for _, c := range l.open[pool] {
		if c.canServe(l.picker, n.view, l.fleet.Now()) {
			ids = append(ids, c.id)
		}
	}
	return ids
}

// dequeue takes an utterance out of its queue: because it was served, or gives up.
func (l *line) dequeue(now int64, u *utterance, served bool) {
	pool := u.request.class.pool
	l.calls.dequeue++
	l.queues[pool].Dequeue(clockBase+now, u.waiter, served)
	l.instances[pool][u.instance()]--
	if u.offered == nil {
		l.waiting(u, -1)
	}
}

// giveBack returns an offer that could not be used.
func (l *line) giveBack(now int64, u *utterance) {
	pool := u.request.class.pool
	l.calls.giveBack++
	u.offered = nil
	if l.queues[pool].Return(clockBase+now, u.waiter) {
		l.waiting(u, 1)
	}
}

// maxSwept is how many nodes one sweep probes.
const maxSwept = 128

// tend sends the beats of the instances every other time, and sweeps for free slots that nobody was offered.
func (l *line) tend(now int64, round int) {
	for _, pool := range l.pools {
		waiters := 0
		for i, n := range l.instances[pool] {
			if n > 0 && round%2 == 0 {
				l.queues[pool].Beat(clockBase+now, "i"+strconv.Itoa(i))
			}
			waiters += n
		}
		if waiters == 0 {
			continue
		}
		l.refresh(now, l.queues)
		l.calls.sweeps++
		for _, c := range slices.Clone(l.open[pool]) {
			l.sweep(now, c, max(1, maxSwept/len(l.open[pool])))
		}
	}
}

// sweep probes so many random nodes that can serve a class, and offers their free slots.
func (l *line) sweep(now int64, c *class, count int) {
	route := l.fleet.Route(c.spec.Direction, false)
	for _, s := range route.Stops {
		if c.pool != "" && s.Pool != c.pool || s.Ready == 0 {
			continue
		}
		part := count // of the pool: its part of the nodes
		if c.pool == "" {
			part = max(1, count*s.Ready/fleet.Total(route.Ends))
		}
		view := s.Index.View()
		for range min(part, int(view.Len)) {
			m := view.At(view.SlotOf(l.rng.IntN(int(view.Len))))
			if m.Node == nil {
				continue
			}
			n := m.Handle().(*node)
			l.fleet.Observe(m.Node, n.reserved, n.declared.MaxJobs, l.fleet.Now())
			if n.free() > 0 {
				l.freed(now, n, n.free())
			}
		}
	}
}
