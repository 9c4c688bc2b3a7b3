package fairqueue

import "testing"

// TestQueueBeginsAnew: a queue in which a grant makes the virtual time of the pool, or of a class, too high has no waiters at the next call. When they are
// added again, the shares follow the weights as before.
func TestQueueBeginsAnew(t *testing.T) {
	t.Parallel()
	for name, raise := range map[string]func(q *Queue){
		"pool": func(q *Queue) { q.classes["x"].offset = MaxVirtual + 1 },
		// Its deadline makes a in y the most urgent, because of the turn that it has in x.
		"class": func(q *Queue) { q.flows[flowKey{"y", "a"}].tag = MaxVirtual + 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			urgent := b.waiter("y", "a", "i")
			urgent.Deadline -= 1000
			b.enqueue(urgent, 3)
			b.keep("x", "a", 3, 10)
			b.keep("x", "b", 1, 10)
			b.fill()
			raise(b.q)
			asked := map[string][]string{"pool": {"x"}, "class": {"x", "y"}}[name]
			if got := b.q.Offer(b.now, 1, asked); len(got.Offers) != 1 || b.q.Waiting() != 20 {
				t.Fatalf("offered %+v, %d waiters; want 20", got, b.q.Waiting())
			}
			if got := b.q.Beat(b.now, "i"); got.Waiters != 0 || b.q.Waiting() != 0 {
				t.Fatalf("%+v, %d waiters in the queue; want none", got, b.q.Waiting())
			}
			clear(b.count)
			b.run(400, always("x", "y"))
			wantAbout(t, "a, of 400", b.tenantCount("a"), 300, 3)
		})
	}
}
