package fairqueue

// Enqueue adds a waiter, unless it is there. The same call may be repeated.
func (q *Queue) Enqueue(now int64, p EnqueueParams) EnqueueResult {
	q.begin(now)
	defer q.end()
	w := p.Waiter
	if w.Deadline <= now {
		return EnqueueResult{Verdict: Expired, EstimateMS: -1}
	}
	weight := min(max(p.Weight, 1), MaxWeight)
	key := flowKey{w.Class, w.Tenant}
	f := q.flows[key]
	if f != nil {
		if i, there := f.position(w); there {
			q.beatOf(w.Instance, now)
			return EnqueueResult{Verdict: Queued, EstimateMS: q.estimate(f, i+1, q.tenants[w.Tenant].weight)}
		}
	}
	if q.offers[w.Member()] != nil {
		q.beatOf(w.Instance, now)
		return EnqueueResult{Verdict: Queued, EstimateMS: 0}
	}
	if !p.Repeat && q.isFull(key, weight, p.MaxWaiting) {
		return EnqueueResult{Verdict: QueueFull, EstimateMS: -1}
	}
	estimate := int64(-1)
	if c := q.classes[w.Class]; c != nil {
		rank := 1
		if f != nil {
			i, _ := f.position(w)
			rank = i + 1
		}
		estimate = q.estimateIn(c, f, w.Tenant, rank, weight)
	}
	if c := q.classes[w.Class]; !p.Repeat && c != nil && c.waiting > 0 && estimate > w.Deadline-now { // alone, it is tried in any case
		return EnqueueResult{Verdict: CannotBeMet, EstimateMS: estimate}
	}
	return EnqueueResult{Verdict: Queued, First: q.add(now, &p, weight), EstimateMS: estimate}
}

// isFull reports whether a tenant may not add a waiter.
func (q *Queue) isFull(key flowKey, weight, maxWaiting int) bool {
	l := Load{Waiting: q.waiting, Classes: q.opened, Weights: q.weights}
	if t := q.tenants[key.tenant]; t != nil {
		l.TenantWaiting, l.TenantClasses = t.waiting, t.flows
		if t.waiting > 0 {
			l.Weights -= t.weight
		}
	}
	c := q.classes[key.class]
	l.ClassOpen = c != nil && c.waiting > 0
	return l.IsFull(weight, maxWaiting)
}

// Load is how much of a queue is used, and by a tenant that is to add a waiter.
type Load struct {
	Waiting, Classes             int  // waiters, and classes that have some
	TenantWaiting, TenantClasses int  // those of the tenant
	Weights                      int  // of the other tenants that have waiters
	ClassOpen                    bool // the class of the waiter has others
}

// IsFull reports whether a tenant of a weight may not add a waiter to a queue in which so many may wait.
func (l *Load) IsFull(weight, maxWaiting int) bool {
	weights := l.Weights + weight
	return exceedsPart(l.Waiting, l.TenantWaiting, maxWaiting, weight, weights) ||
		!l.ClassOpen && exceedsPart(l.Classes, l.TenantClasses, MaxClasses, weight, weights)
}

// exceedsPart reports whether one more is too many for a tenant that has some of all: there are as many as the limit, and it has its part
// of them, or there are twice as many.
func exceedsPart(all, own, limit, weight, weights int) bool {
	return all >= 2*limit || all >= limit && (own+1)*weights > limit*weight
}

// add adds a waiter that is not there, and reports whether nobody else is in the queue of the class.
func (q *Queue) add(now int64, p *EnqueueParams, weight int) (first bool) {
	w := p.Waiter
	t := q.tenants[w.Tenant]
	if t == nil {
		t = &tenant{}
		q.tenants[w.Tenant] = t
	}
	if t.waiting > 0 {
		q.weights += weight - t.weight
	}
	t.weight = weight
	c := q.classes[w.Class]
	if c == nil {
		c = &class{id: w.Class}
		q.classes[w.Class] = c
	}
	first = c.waiting == 0
	if first {
		c.requirements = p.Requirements
		c.meter.begin(now)
		c.offset = max(c.offset, q.virtual-c.virtual)
	}
	key := flowKey{w.Class, w.Tenant}
	f := q.flows[key]
	if f == nil {
		f = &flow{flowKey: key}
		q.flows[key] = f
	}
	if len(f.line) == 0 {
		f.tag = max(f.tag, c.virtual, min(t.finish-c.offset, c.virtual+MaxDebt*Unit/int64(weight)))
		f.meter.begin(now)
	}
	q.put(c, f, t, w, now)
	q.beatOf(w.Instance, now)
	q.instances[w.Instance].waiters++
	return first
}

// beatOf records that an instance is alive.
func (q *Queue) beatOf(id string, now int64) {
	in := q.instances[id]
	if in == nil {
		in = &instance{}
		q.instances[id] = in
	}
	in.beat = now
	q.timers.setNew(timerInstance+id, now+SilenceMS)
}

// estimate returns how long the waiter of a flow with a rank will wait.
func (q *Queue) estimate(f *flow, rank, weight int) int64 {
	return q.estimateIn(q.classes[f.class], f, f.tenant, rank, weight)
}

// estimateIn is estimate for a tenant that may have no flow yet.
func (q *Queue) estimateIn(c *class, f *flow, tenant string, rank, weight int) int64 {
	others := make([]Competitor, 0, MaxFlows)
	for _, other := range c.turns[:min(len(c.turns), MaxFlows)] {
		if other.tenant != tenant {
			others = append(others, Competitor{Waiting: len(other.line), Weight: other.weight})
		}
	}
	own := Interval{}
	if f != nil {
		own = f.meter.Interval
	}
	flows := len(c.turns)
	if f != nil && len(f.line) > 0 {
		flows--
	}
	return Estimate(c.meter.Interval, own, rank, weight, others, flows)
}

// Competitor is another tenant that waits in the same class.
type Competitor struct{ Waiting, Weight int }

// Estimate returns how many milliseconds a waiter will wait that has a rank in its flow; -1: that is not known. The others are up to
// MaxFlows of the flows of other tenants in the class. A slot is granted once in an interval. Until the flow has been granted rank slots,
// each other gets slots by its weight, but no more than it has waiters. It cannot take less time than the flow has recently needed for as
// many slots.
func Estimate(class, flow Interval, rank, weight int, others []Competitor, flows int) int64 {
	if !class.Known() {
		return -1
	}
	ahead := 0
	for _, o := range others {
		ahead += min(o.Waiting, rank*o.Weight/weight)
	}
	if len(others) > 0 && flows > len(others) {
		ahead = ahead * flows / len(others)
	}
	took := int64(rank+ahead) * class.US
	if flow.Known() {
		took = max(took, int64(rank)*flow.US)
	}
	return took * 5 / 4000 // with a margin of a quarter, in milliseconds
}
