package waiting

import (
	"context"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

const (
	// maxSnapshotAge is how old a snapshot may be with which a request is answered.
	maxSnapshotAge = 250 * time.Millisecond
	// snapshotTimeout bounds the reading of a snapshot.
	snapshotTimeout = 2 * time.Second
	// maxListedWaiters is how many waiters of one flow a snapshot has: the first ones.
	maxListedWaiters = 1000
	// minFlowPage and maxFlowPage are how many flows are read at once. A call to the store must not take long.
	minFlowPage, maxFlowPage = 16, 256
	// smallPage is the number of waiters up to which the next page has twice as many flows.
	smallPage = 2000
)

// queueSnapshot is what the queue of one pool held.
type queueSnapshot struct {
	pool    core.PoolID
	now     int64 // the time of the store
	classes []*classSnapshot
}

// classSnapshot is a class in which requests wait.
type classSnapshot struct {
	fairqueue.ClassView
	class *waitClass           // nil: this version does not understand its requirements
	flows []fairqueue.FlowView // in the order of their turns
}

// estimate returns how many milliseconds the request of a tenant at a place of its flow will wait; -1 if that is not known.
func (c *classSnapshot) estimate(tenant string, place, weight int) int64 {
	var own fairqueue.Interval
	var others []fairqueue.Competitor
	flows := len(c.flows)
	for i := range c.flows {
		switch f := &c.flows[i]; {
		case f.Tenant == tenant:
			own = f.Interval
			flows--
		case i < fairqueue.MaxFlows:
			others = append(others, fairqueue.Competitor{Waiting: f.Waiting, Weight: f.Weight})
		}
	}
	return fairqueue.Estimate(c.Interval, own, place, weight, others, flows)
}

// snapshots reads what the queues of all pools hold. Requests of the same moment share what was read.
type snapshots struct {
	store   *client
	fleet   *fleet.Fleet
	open    *openClasses
	waiters *waiters
	tasks   *run.Group

	mu   run.Mutex
	last *snapshotRead
}

// snapshotRead is a read of all queues.
type snapshotRead struct {
	began  time.Time
	done   chan struct{}
	queues []*queueSnapshot
	err    error
}

// get returns a recent snapshot.
func (s *snapshots) get(ctx context.Context) ([]*queueSnapshot, error) {
	r := s.join()
	select {
	case <-r.done:
		return r.queues, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// join returns the last read, or begins one if that is too old.
func (s *snapshots) join() *snapshotRead {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && time.Since(s.last.began) < maxSnapshotAge {
		return s.last
	}
	r := &snapshotRead{began: time.Now(), done: make(chan struct{})}
	s.last = r
	started := s.tasks.Go(func(ctx context.Context) {
		defer close(r.done)
		ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
		defer cancel()
		r.queues, r.err = s.read(ctx, maxListedWaiters)
	})
	if !started {
		r.err = context.Canceled
		close(r.done)
	}
	return r
}

// pools returns the pools in whose queues requests may wait.
func (s *snapshots) pools() []core.PoolID {
	pools := []core.PoolID{""}
	add := func(pool core.PoolID) {
		if !slices.Contains(pools, pool) {
			pools = append(pools, pool)
		}
	}
	if division := s.fleet.Division(); division.Enabled() {
		pools = append(pools, division.IDs()...)
	}
	for _, pool := range s.open.openPools() { // the division may have changed since they began to wait
		add(pool)
	}
	for pool := range s.waiters.pools() {
		add(pool)
	}
	return pools
}

// read reads the queues in which somebody waits, with at most waiters waiters of each flow.
func (s *snapshots) read(ctx context.Context, waiters int) ([]*queueSnapshot, error) {
	pools := s.pools()
	open, err := s.store.OpenClasses(ctx, nil, pools...)
	if err != nil {
		s.store.RecordError("view_queue", err)
		return nil, err
	}
	var queues []*queueSnapshot
	for i, pool := range pools {
		if len(open[i]) == 0 {
			continue
		}
		q, err := s.readQueue(ctx, pool, waiters)
		if err != nil {
			s.store.RecordError("view_queue", err)
			return nil, err
		}
		queues = append(queues, q)
	}
	return queues, nil
}

// readQueue reads one queue, in pages.
func (s *snapshots) readQueue(ctx context.Context, pool core.PoolID, waiters int) (*queueSnapshot, error) {
	q := &queueSnapshot{pool: pool}
	type flowKey struct{ class, tenant string }
	seen := make(map[flowKey]bool) // a flow may be on two pages, because its turn has changed
	for p, more := (fairqueue.ViewParams{Flows: minFlowPage, Waiters: waiters}), true; more; {
		v, err := s.store.ViewQueue(ctx, pool, p)
		if err != nil {
			return nil, err
		}
		q.now, more = v.Now, v.More
		for _, c := range v.Classes {
			if n := len(q.classes); n == 0 || q.classes[n-1].ID != c.ID {
				q.classes = append(q.classes, &classSnapshot{ClassView: c, class: parseWaitClass(c.ID, c.Requirements)})
			}
		}
		listed, classes := 0, q.classes[max(0, len(q.classes)-len(v.Classes)):]
		for _, f := range v.Flows {
			p.After = f.Cursor
			listed += len(f.Waiters)
			for classes[0].ID != f.Class {
				classes = classes[1:]
			}
			if key := (flowKey{f.Class, f.Tenant}); !seen[key] {
				seen[key] = true
				classes[0].flows = append(classes[0].flows, f)
			}
		}
		if listed <= smallPage {
			p.Flows = min(2*p.Flows, maxFlowPage)
		}
	}
	return q, nil
}
