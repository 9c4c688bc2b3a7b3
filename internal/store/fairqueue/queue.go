package fairqueue

import (
	"cmp"
	"fmt"
	"slices"
)

// Queue is the queue of one pool. Make one with New. It is not safe for concurrent use.
type Queue struct {
	classes   map[string]*class
	flows     map[flowKey]*flow
	tenants   map[string]*tenant
	instances map[string]*instance
	offers    map[string]*offer // by member
	timers    timers

	virtual    int64 // the virtual time of the pool
	waiting    int   // waiters that have no offer
	weights    int   // of the tenants that have such waiters
	opened     int   // classes that have such waiters
	lastCall   int64
	judgeAfter int64 // no instance is taken for dead before
	freed      bool  // offers were taken back since the last beat
}

// class is a class that has waiters, or had some a moment ago.
type class struct {
	id, requirements string
	virtual          int64   // the virtual time of the class: the highest value that the lowest tag of its flows had at a grant
	offset           int64   // from it to the virtual time of the pool
	turns            []*flow // those that have waiters, the next one first
	waiting          int
	weights          int   // of these flows
	contests         int64 // Σ ShareScale / weights over the grants for which several flows waited
	meter            meter
}

type flowKey struct{ class, tenant string }

// flow is the waiters of a tenant in a class.
type flow struct {
	flowKey
	tag       int64 // in the virtual time of the class
	filed     int64 // when its first waiter arrived
	line      []Waiter
	weight    int   // of the tenant when the flow was filed
	contested int64 // class.contests when the entitlement of the tenant was last settled
	meter     meter
}

// tenant is a tenant that has waiters, or had some a moment ago.
type tenant struct {
	weight            int
	waiting           int
	flows             int   // that have waiters
	finish            int64 // the virtual time of the pool up to which it was served
	granted, entitled int64 // as in FlowView
}

// instance is a scheduler instance that has waiters.
type instance struct {
	beat    int64
	waiters int // with those that have an offer
}

// offer is what an offer has changed, so that it can be taken back.
type offer struct {
	Waiter
	expires int64
	filed   int64 // of the flow
	charge  int64
	charged []string // classes in which the tenant was charged
	contest int64    // added to class.contests
}

// compareWaiters orders the waiters of a flow as their members are ordered in Redis.
func compareWaiters(a, b Waiter) int {
	return cmp.Or(cmp.Compare(a.Deadline, b.Deadline), cmp.Compare(a.Since, b.Since), cmp.Compare(a.Instance, b.Instance),
		cmp.Compare(a.ID, b.ID))
}

func compareTurns(a, b *flow) int {
	return cmp.Or(cmp.Compare(a.tag, b.tag), cmp.Compare(a.filed, b.filed), cmp.Compare(a.tenant, b.tenant))
}

// cursor names a flow in the order of all flows.
func (f *flow) cursor() string {
	return fmt.Sprintf("%s|%016d|%013d|%s", f.class, f.tag, f.filed, f.tenant)
}

// New makes an empty queue.
func New() *Queue {
	return &Queue{
		classes: make(map[string]*class), flows: make(map[flowKey]*flow), tenants: make(map[string]*tenant),
		instances: make(map[string]*instance), offers: make(map[string]*offer),
	}
}

// Waiting returns how many waiters there are that have no offer.
func (q *Queue) Waiting() int { return q.waiting }

// OpenClasses returns the classes in which somebody waits.
func (q *Queue) OpenClasses() []string {
	if q.opened == 0 {
		return nil
	}
	open := make([]string, 0, q.opened)
	for id, c := range q.classes {
		if c.waiting > 0 {
			open = append(open, id)
		}
	}
	return open
}

// Requirements returns the requirements of a class in which somebody waits; empty: nobody does.
func (q *Queue) Requirements(class string) string {
	if c := q.classes[class]; c != nil && c.waiting > 0 {
		return c.requirements
	}
	return ""
}

// position returns where a waiter is in the queue of its flow, or where it belongs.
func (f *flow) position(w Waiter) (int, bool) {
	return slices.BinarySearchFunc(f.line, w, compareWaiters)
}

// fileTurn puts a flow among those that wait in the class.
func (c *class) fileTurn(f *flow) {
	i, _ := slices.BinarySearchFunc(c.turns, f, compareTurns)
	c.turns = slices.Insert(c.turns, i, f)
}

func (c *class) removeTurn(f *flow) {
	i, _ := slices.BinarySearchFunc(c.turns, f, compareTurns)
	c.turns = slices.Delete(c.turns, i, i+1)
}

// setTag changes the tag of a flow that has waiters.
func (c *class) setTag(f *flow, tag int64) {
	c.removeTurn(f)
	f.tag = tag
	c.fileTurn(f)
}

// settle adds to a tenant what it was entitled to in a class since that was last done.
func (q *Queue) settle(c *class, f *flow) {
	q.tenants[f.tenant].entitled += int64(f.weight) * (c.contests - f.contested)
	f.contested = c.contests
}

// put puts a waiter into the queue. A flow that had none is filed at a time, with the tag that it has.
func (q *Queue) put(c *class, f *flow, t *tenant, w Waiter, filed int64) {
	if len(f.line) == 0 {
		f.filed, f.weight, f.contested = filed, t.weight, c.contests
		c.fileTurn(f)
		c.weights += f.weight
		t.flows++
		q.timers.remove(timerFlow + f.class + "|" + f.tenant)
	}
	i, _ := f.position(w)
	f.line = slices.Insert(f.line, i, w)
	if c.waiting == 0 {
		q.opened++
		q.timers.remove(timerClass + c.id)
	}
	c.waiting++
	if t.waiting == 0 {
		q.weights += t.weight
		q.timers.remove(timerTenant + f.tenant)
	}
	t.waiting++
	q.waiting++
}

// take removes a waiter from the queue.
func (q *Queue) take(w Waiter, now int64) {
	c, f, t := q.classes[w.Class], q.flows[flowKey{w.Class, w.Tenant}], q.tenants[w.Tenant]
	i, _ := f.position(w)
	f.line = slices.Delete(f.line, i, i+1)
	if len(f.line) == 0 {
		c.removeTurn(f)
		q.settle(c, f)
		c.weights -= f.weight
		t.flows--
		q.timers.set(timerFlow+f.class+"|"+f.tenant, now+ForgetMS)
	}
	if c.waiting--; c.waiting == 0 {
		q.opened--
		q.timers.set(timerClass+c.id, now+ForgetClassMS)
	}
	if t.waiting--; t.waiting == 0 {
		q.weights -= t.weight
		q.timers.set(timerTenant+w.Tenant, now+ForgetMS)
	}
	q.waiting--
}

// leave removes what is counted of a waiter that is neither in the queue nor has an offer any more.
func (q *Queue) leave(w *Waiter) {
	in := q.instances[w.Instance]
	if in == nil {
		return
	}
	if in.waiters--; in.waiters <= 0 {
		delete(q.instances, w.Instance)
		q.timers.remove(timerInstance + w.Instance)
	}
}

// isDead reports whether the waiters of an instance are to be removed: it has been silent, and not because the store did not answer.
func (q *Queue) isDead(id string, now int64) bool {
	in := q.instances[id]
	return in == nil || now >= q.judgeAfter && now-in.beat >= SilenceMS
}
