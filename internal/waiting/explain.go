package waiting

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/wire"
)

// Explained says what the wait of a request would be for which no slot is free.
type Explained struct {
	Pool          core.PoolID   // in whose queue it would wait
	Place         int           // among the requests of its tenant and class
	TenantWaiting int           // requests of its tenant that wait in this queue
	Estimate      time.Duration // until it has a slot, or EstimateUnknown
	Refusal       wire.Code     // why it could not wait; empty: it could
	// OtherTenants is how many requests of other tenants wait in the same class, OtherClasses how many wait in other classes for some of
	// the same nodes. Both are -1 in an explanation for a tenant.
	OtherTenants, OtherClasses int
	Detail                     string
}

// ExplainParams describes an explanation.
type ExplainParams struct {
	Spec core.Spec
	// OnlyTenant makes it an explanation for the tenant of the job: it says nothing of requests of other tenants.
	OnlyTenant bool
}

// Explain says what the wait of a request would be.
func (q *Queue) Explain(ctx context.Context, p *ExplainParams) (*Explained, error) {
	queues, err := q.snapshots.get(ctx)
	if err != nil {
		return nil, store.CallError(ctx)
	}
	class, pool := newWaitClass(q.options.Fleet, &p.Spec, nil)
	w := &Explained{Pool: pool, Place: 1, Estimate: EstimateUnknown}
	maxWait := int64(math.MaxInt64)
	if ms := p.Spec.Options.MaxWaitMS; ms != nil && *ms > 0 {
		maxWait = *ms
	}
	for _, s := range queues {
		if s.pool == pool {
			s.explain(w, class.id, string(p.Spec.Tenant), q.weight(p.Spec.Tenant), maxWait, q.options.MaxWaiting)
		}
	}
	if w.OtherClasses = q.countRivals(queues, class); p.OnlyTenant {
		w.OtherTenants, w.OtherClasses = -1, -1
	}
	w.Detail = w.describe()
	return w, nil
}

// explain sets what the wait of a request would be in this queue. A request that has not said how long it waits is not refused because of
// that.
func (q *queueSnapshot) explain(w *Explained, class, tenant string, weight int, maxWait int64, maxWaiting int) {
	load := fairqueue.Load{Classes: len(q.classes)}
	weights := make(map[string]int) // of other tenants
	for _, c := range q.classes {
		if c.ID == class {
			load.ClassOpen = true
		}
		for i := range c.flows {
			f := &c.flows[i]
			load.Waiting += f.Waiting
			switch {
			case f.Tenant != tenant:
				weights[f.Tenant] = f.Weight
				if c.ID == class {
					w.OtherTenants += f.Waiting
				}
				continue
			case c.ID == class:
				w.Place = placeOf(f, q.now, maxWait)
			}
			load.TenantClasses++
			w.TenantWaiting += f.Waiting
		}
	}
	for _, n := range weights {
		load.Weights += n
	}
	load.TenantWaiting = w.TenantWaiting
	for _, c := range q.classes {
		if c.ID == class {
			w.Estimate = estimateOf(c.estimate(tenant, w.Place, weight))
		}
	}
	switch {
	case load.IsFull(weight, maxWaiting):
		w.Refusal = wire.QueueFull
	case w.Estimate != EstimateUnknown && w.Estimate.Milliseconds() > maxWait:
		w.Refusal = wire.CannotBeMet
	}
}

// placeOf returns the place that a request of a flow would have that gives up after a time: those with earlier deadlines are before it.
func placeOf(f *fairqueue.FlowView, now, maxWait int64) int {
	for i := range f.Waiters {
		if f.Waiters[i].Deadline-now > maxWait {
			return i + 1
		}
	}
	return f.Waiting + 1
}

// countRivals returns how many requests wait in other classes for some of the nodes that can serve a class.
func (q *Queue) countRivals(queues []*queueSnapshot, class *waitClass) int {
	nodes, now := q.keeper.sample(class, maxSwept), q.options.Fleet.Now()
	total := 0
	for _, s := range queues {
		for _, c := range s.classes {
			if c.ID == class.id || c.class == nil {
				continue
			}
			filter := q.open.filterOf(c.class)
			for _, n := range nodes {
				if filter.canServe(n, now) {
					total += c.Waiting
					break
				}
			}
		}
	}
	return total
}

// describe says in words what the wait would be.
func (w *Explained) describe() string {
	var b strings.Builder
	switch {
	case w.Refusal == wire.QueueFull:
		b.WriteString("It could not wait: too many requests wait, and its tenant has its part of them.")
	case w.Refusal == wire.CannotBeMet:
		fmt.Fprintf(&b, "It could not wait: it would get a slot in about %s, later than options.max_wait_ms.",
			w.Estimate.Round(10*time.Millisecond))
	case w.Estimate == EstimateUnknown:
		fmt.Fprintf(&b, "With options.max_wait_ms it would wait as number %d of its tenant; how long is not known.", w.Place)
	default:
		fmt.Fprintf(&b, "With options.max_wait_ms it would wait as number %d of its tenant, for about %s.", w.Place,
			w.Estimate.Round(10*time.Millisecond))
	}
	if w.OtherTenants > 0 {
		fmt.Fprintf(&b, " Of other tenants, %d wait for the same.", w.OtherTenants)
	}
	if w.OtherClasses > 0 {
		fmt.Fprintf(&b, " In other classes, %d wait for some of the same nodes.", w.OtherClasses)
	}
	return b.String()
}
