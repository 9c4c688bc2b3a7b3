package fairqueue

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// machine makes random calls to a queue and checks what must always hold.
type machine struct {
	q       *Queue
	now     int64
	ids     int
	entered map[string]bool  // waiters that were accepted and have not left
	offered map[string]int64 // waiters that were offered a slot, and until when they may use it
}

// TestInvariants: whatever happens, the counts of a queue are those of its waiters, a waiter has at most one offer at a time, none is offered a slot
// after its deadline or for a class that was not asked for, and while waiters of an asked class are alive every slot is offered.
func TestInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{q: New(), now: 1_700_000_000_000, entered: make(map[string]bool), offered: make(map[string]int64)}
		t.Repeat(map[string]func(*rapid.T){
			"enqueue": m.enqueue, "offer": m.offer, "dequeue": m.dequeue, "return": m.giveBack, "beat": m.beat, "wait": m.wait, "": m.check,
		})
	})
}

func (m *machine) enqueue(t *rapid.T) {
	m.ids++
	w := Waiter{
		ID: fmt.Sprint(m.ids), Class: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "class"), Tenant: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant"),
		Instance: rapid.SampledFrom([]string{"i", "j"}).Draw(t, "instance"), Since: m.now, Deadline: m.now + rapid.Int64Range(1, 3000).Draw(t, "for"),
	}
	if m.q.Enqueue(m.now, EnqueueParams{Waiter: w, Weight: rapid.IntRange(1, 500).Draw(t, "weight"), MaxWaiting: 30}).Verdict == Queued {
		m.entered[w.Member()] = true
	}
}

func (m *machine) offer(t *rapid.T) {
	asked := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y"}), 0, 2, rapid.ID[string]).Draw(t, "classes")
	n := rapid.IntRange(0, 5).Draw(t, "slots")
	alive := 0
	for _, f := range m.q.flows {
		for _, w := range f.line {
			for _, class := range asked {
				if class == w.Class && w.Deadline > m.now && !m.q.isDead(w.Instance, m.now) {
					alive++
				}
			}
		}
	}
	r := m.q.Offer(m.now, n, asked)
	if len(r.Offers) < min(n, alive) && !r.More {
		t.Fatalf("%d slots were offered of %d, and %d waiters are alive", len(r.Offers), n, alive)
	}
	for _, o := range r.Offers {
		name := o.Member()
		switch until, again := m.offered[name]; {
		case again && m.now < until:
			t.Fatalf("%s has two offers", name)
		case o.Deadline <= m.now:
			t.Fatalf("%s is offered a slot at %d", name, m.now)
		case !m.entered[name]:
			t.Fatalf("%s does not wait", name)
		}
		m.offered[name] = o.ExpiresAt
	}
}

// draw draws a waiter that the queue knows.
func (m *machine) draw(t *rapid.T) (Waiter, bool) {
	var all []Waiter
	for _, f := range m.q.flows {
		all = append(all, f.line...)
	}
	for _, o := range m.q.offers {
		all = append(all, o.Waiter)
	}
	if len(all) == 0 {
		return Waiter{}, false
	}
	return all[rapid.IntRange(0, len(all)-1).Draw(t, "waiter")], true
}

func (m *machine) dequeue(t *rapid.T) {
	if w, ok := m.draw(t); ok {
		m.q.Dequeue(m.now, w, rapid.Bool().Draw(t, "served"))
		delete(m.entered, w.Member())
		delete(m.offered, w.Member())
	}
}

func (m *machine) giveBack(t *rapid.T) {
	if w, ok := m.draw(t); ok {
		m.q.Return(m.now, w)
		delete(m.offered, w.Member())
	}
}

func (m *machine) beat(t *rapid.T) {
	m.q.Beat(m.now, rapid.SampledFrom([]string{"i", "j", "k"}).Draw(t, "instance"))
}

func (m *machine) wait(t *rapid.T) {
	m.now += rapid.SampledFrom([]int64{1, 90, 290, 300, 349, 700, 5000, 6000}).Draw(t, "ms")
}

// check compares all counts with the waiters.
func (m *machine) check(t *rapid.T) {
	waiting, byClass, byTenant, flows, byInstance := 0, map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	for key, f := range m.q.flows {
		if len(f.line) > 0 {
			flows[key.tenant]++
		}
		for _, w := range f.line {
			waiting++
			byClass[w.Class]++
			byTenant[w.Tenant]++
			byInstance[w.Instance]++
		}
	}
	for _, o := range m.q.offers {
		byInstance[o.Instance]++
	}
	weights, open := 0, 0
	for id, c := range m.q.classes {
		turns := 0
		for _, f := range c.turns {
			turns += f.weight
		}
		if c.waiting != byClass[id] || c.weights != turns {
			t.Fatalf("class %s: %d waiters, weights %d; want %d, %d", id, c.waiting, c.weights, byClass[id], turns)
		}
		if c.waiting > 0 {
			open++
		}
	}
	for id, tenant := range m.q.tenants {
		if tenant.waiting != byTenant[id] || tenant.flows != flows[id] {
			t.Fatalf("tenant %s: %d waiters in %d classes, want %d in %d", id, tenant.waiting, tenant.flows, byTenant[id], flows[id])
		}
		if tenant.waiting > 0 {
			weights += tenant.weight
		}
	}
	for id, in := range m.q.instances {
		if in.waiters != byInstance[id] || in.waiters == 0 {
			t.Fatalf("instance %s has %d waiters, want %d", id, in.waiters, byInstance[id])
		}
	}
	if m.q.waiting != waiting || m.q.weights != weights || m.q.opened != open || len(byInstance) != len(m.q.instances) {
		t.Fatalf("%d waiters, weights %d, %d classes; want %d, %d, %d", m.q.waiting, m.q.weights, m.q.opened, waiting, weights, open)
	}
	if len(m.q.timers.byName) != len(m.q.timers.sorted) {
		t.Fatalf("%d timers, %d in order", len(m.q.timers.byName), len(m.q.timers.sorted))
	}
}
