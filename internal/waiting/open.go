package waiting

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/run"
)

// openClasses is this instance's copy of the classes in which requests of any instance wait, by pool. A request that arrives takes no slot
// that such a class could use.
type openClasses struct {
	store  *client
	fleet  *fleet.Fleet
	picker *pick.Picker
	tasks  *run.Group    // has the context of reads for several callers
	within time.Duration // which such a read takes at most

	opened func()      // called when the copy has classes
	any    atomic.Bool // the copy has classes

	mu      run.Mutex
	pools   map[core.PoolID]*openPool // those that have classes
	read    map[core.PoolID]time.Time // before the store was asked for what the copy says, also that a pool has no classes
	reading *openRead                 // the last one of all pools in the copy; nil: it has ended
}

// openPool is the copy for one pool.
type openPool struct {
	read    time.Time // before the store was asked
	classes map[string]*waitClass
	filters *classFilters // of the classes
}

// openRead is a read of the store, for all callers that ask at the same time.
type openRead struct {
	began time.Time
	done  chan struct{}
	err   error
}

// maxOpenAge is how old the copy may be when a request is refused, or begins to wait, because of it.
const maxOpenAge = 20 * time.Millisecond

func newOpenClasses(st *client, fl *fleet.Fleet, pk *pick.Picker, tasks *run.Group, within time.Duration) *openClasses {
	return &openClasses{
		store: st, fleet: fl, picker: pk, tasks: tasks, within: within, mu: run.NewMutex("dispatch_open"),
		pools: make(map[core.PoolID]*openPool), read: make(map[core.PoolID]time.Time), opened: func() {},
	}
}

// refresh reads which classes are open in pools.
func (c *openClasses) refresh(ctx context.Context, pools ...core.PoolID) error {
	read := time.Now()
	copies := make([]openPool, len(pools))
	for i, pool := range pools {
		copies[i] = c.copyOf(pool)
	}
	known := func(pool core.PoolID, class string) bool {
		return copies[slices.Index(pools, pool)].classes[class] != nil
	}
	open, err := c.store.OpenClasses(ctx, known, pools...)
	if err != nil {
		c.store.RecordError("open_classes", err)
		return err
	}
	for i, pool := range pools {
		c.update(pool, copies[i], open[i], read)
	}
	return nil
}

// update replaces the copy for one pool by the classes that are open, with the requirements of those that the copy does not have.
func (c *openClasses) update(pool core.PoolID, copied openPool, open map[string]string, read time.Time) {
	if len(open) == 0 {
		c.set(pool, &openPool{read: read})
		return
	}
	known := copied.classes
	classes := make(map[string]*waitClass, len(open))
	added := false
	for id, requirements := range open {
		if class := known[id]; class != nil {
			classes[id] = class
		} else if class := parseWaitClass(id, requirements); class != nil {
			classes[id], added = class, true
		}
	}
	if added || len(classes) != len(known) {
		copied.classes, copied.filters = classes, newClassFilters(c.fleet.Division(), c.picker, classes)
	}
	copied.read = read
	c.set(pool, &copied)
}

// set replaces the copy for one pool, unless the present one was read later.
func (c *openClasses) set(pool core.PoolID, p *openPool) {
	if len(p.classes) > 0 {
		defer c.opened() // after the lock is released
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read[pool].After(p.read) {
		return
	}
	c.read[pool] = p.read
	if len(p.classes) == 0 {
		delete(c.pools, pool)
	} else {
		c.pools[pool] = p
	}
	c.any.Store(len(c.pools) > 0)
}

// copyOf returns the copy for one pool; it is empty if nobody waits there.
func (c *openClasses) copyOf(pool core.PoolID) openPool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pools[pool]; p != nil {
		return *p
	}
	return openPool{}
}

// classes returns the classes that are open in a pool. The map is not changed.
func (c *openClasses) classes(pool core.PoolID) map[string]*waitClass { return c.copyOf(pool).classes }

// filters returns the filters of the classes that are open in a pool; nil if there are none. They are made again if the fleet was divided
// otherwise meanwhile.
func (c *openClasses) filters(pool core.PoolID) *classFilters {
	p, division := c.copyOf(pool), c.fleet.Division()
	if p.filters == nil || p.filters.division == division {
		return p.filters
	}
	p.filters = newClassFilters(division, c.picker, p.classes)
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.pools[pool]; now != nil && now.read.Equal(p.read) {
		c.pools[pool] = &p
	}
	return p.filters
}

// count returns how many classes are open in all pools.
func (c *openClasses) count() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pools {
		n += len(p.classes)
	}
	return n
}

// openPools returns the pools that have open classes.
func (c *openClasses) openPools() []core.PoolID {
	c.mu.Lock()
	defer c.mu.Unlock()
	pools := make([]core.PoolID, 0, len(c.pools))
	for pool := range c.pools {
		pools = append(pools, pool)
	}
	return pools
}

// renew reads the copy again if it has classes and is older than maxOpenAge. Callers that ask at the same time share one read.
func (c *openClasses) renew(ctx context.Context) error {
	if !c.any.Load() {
		return nil
	}
	r, mine, pools := c.joinRead()
	switch {
	case r == nil:
		return nil
	case mine: // a caller that leaves does not end the read of the others
		read, cancel := context.WithTimeout(c.tasks.Context(), c.within)
		defer cancel()
		r.err = c.refresh(read, pools...)
		c.mu.Lock()
		if c.reading == r { // else a later one is under way, because this one took long
			c.reading = nil
		}
		c.mu.Unlock()
		close(r.done)
		return r.err
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// joinRead returns the read that a caller waits for, and whether it makes it, of which pools; nil: the copy is recent.
func (c *openClasses) joinRead() (_ *openRead, mine bool, pools []core.PoolID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading != nil && time.Since(c.reading.began) < maxOpenAge {
		return c.reading, false, nil
	}
	recent := true
	for pool, p := range c.pools {
		pools = append(pools, pool)
		recent = recent && time.Since(p.read) < maxOpenAge
	}
	if recent {
		return nil, false, nil
	}
	c.reading = &openRead{began: time.Now(), done: make(chan struct{})}
	return c.reading, true, pools
}
