package fairqueue

import (
	"fmt"
	"testing"
)

// bench is a queue with tenants that keep their lines filled, and a clock.
type bench struct {
	t     *testing.T
	q     *Queue
	now   int64
	ids   int
	want  map[flowKey]int // how many waiters each flow has whenever a slot is offered
	count map[flowKey]int // slots that each flow got
	order []flowKey       // of want, so that runs are equal
	weigh map[string]int
}

func newBench(t *testing.T) *bench {
	return &bench{t: t, q: New(), now: 1_000_000, want: make(map[flowKey]int), count: make(map[flowKey]int), weigh: make(map[string]int)}
}

// keep keeps n waiters of a tenant in a class.
func (b *bench) keep(class, tenant string, weight, n int) {
	key := flowKey{class, tenant}
	if _, known := b.want[key]; !known {
		b.order = append(b.order, key)
	}
	b.want[key], b.weigh[tenant] = n, weight
}

// waiter makes a waiter that waits for a minute.
func (b *bench) waiter(class, tenant, instance string) Waiter {
	b.ids++
	return Waiter{ID: fmt.Sprintf("job-%d", b.ids), Class: class, Tenant: tenant, Instance: instance, Since: b.now, Deadline: b.now + 60_000}
}

func (b *bench) enqueue(w Waiter, weight int) EnqueueResult {
	return b.q.Enqueue(b.now, EnqueueParams{Waiter: w, Weight: weight, MaxWaiting: 10_000, Requirements: "r-" + w.Class})
}

// fill fills the lines.
func (b *bench) fill() {
	for _, key := range b.order {
		waiting := 0
		if f := b.q.flows[key]; f != nil {
			waiting = len(f.line)
		}
		for ; waiting < b.want[key]; waiting++ {
			if r := b.q.Enqueue(b.now, EnqueueParams{Waiter: b.waiter(key.class, key.tenant, "i"), Weight: b.weigh[key.tenant], MaxWaiting: 100_000, Repeat: true}); r.Verdict != Queued {
				b.t.Fatalf("enqueue %v: %v", key, r)
			}
		}
	}
}

// serve offers one slot for classes, which the winner uses. It returns the winner; false: nobody waits.
func (b *bench) serve(classes ...string) (Waiter, bool) {
	b.q.Beat(b.now, "i")
	r := b.q.Offer(b.now, 1, classes)
	if len(r.Offers) == 0 {
		return Waiter{}, false
	}
	w := r.Offers[0].Waiter
	b.q.Dequeue(b.now, w, true)
	b.count[flowKey{w.Class, w.Tenant}]++
	return w, true
}

// run serves slots, one every millisecond, with full lines.
func (b *bench) run(slots int, classes func(i int) []string) {
	for i := range slots {
		b.fill()
		b.now++
		if _, ok := b.serve(classes(i)...); !ok {
			b.t.Fatalf("slot %d stays empty", i)
		}
	}
}

// tenantCount returns the slots of a tenant in all classes.
func (b *bench) tenantCount(tenant string) int {
	n := 0
	for key, count := range b.count {
		if key.tenant == tenant {
			n += count
		}
	}
	return n
}

// wantAbout fails unless a count is within tolerance of what is wanted.
func wantAbout(t *testing.T, what string, got, want, tolerance int) {
	t.Helper()
	if got < want-tolerance || got > want+tolerance {
		t.Errorf("%s: %d, want %d ± %d", what, got, want, tolerance)
	}
}

func always(classes ...string) func(int) []string { return func(int) []string { return classes } }
