package dispatch_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestRandomFaultsInPools is TestRandomFaults with capability pools that are defined anew all the time, and nodes that move between them.
// Each slot that is granted is one on which the job may run by the pools at that moment, and a job whose tenant was bound when it was
// created is never granted one outside of its pool, and its record names this pool.
func TestRandomFaultsInPools(t *testing.T) {
	t.Parallel()
	for seed := range *chaosSeeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			runTest(t, func(h *harness) {
				c := &chaos{harness: h, rng: rand.New(rand.NewPCG(seed, 7))}
				p := &poolChaos{chaos: c, specs: make(map[core.JobID]core.Spec)}
				p.setPools(poolDivisions[0])
				c.change, c.services, h.store.onReserve = p.bind, p.randomServices, p.reserved
				ctx, stop := context.WithCancel(h.t.Context())
				var changing sync.WaitGroup
				changing.Go(func() { p.redefine(ctx) })
				for i := range chaosNodes {
					changing.Go(func() { p.redeclare(ctx, i) })
				}
				c.run()
				stop()
				changing.Wait()
				p.summarise()
			})
		})
	}
}

const boundTenant = core.TenantID("acme")

// poolDivisions are what is published in turn. All bind the tenant to the pool gold, but for the one without pools.
var poolDivisions = []*core.Pools{
	{
		Defined:   []core.PoolDefinition{{ID: "gold", RequiredServices: []string{"x"}}, {ID: "silver", RequiredServices: []string{"y"}}},
		Overrides: map[core.TenantID]core.PoolID{boundTenant: "gold"},
	},
	{
		Defined: []core.PoolDefinition{{ID: "gold", RequiredServices: []string{"x", "y"}},
			{ID: "silver", RequiredServices: []string{"y"}}, {ID: "bronze"}},
		Overrides: map[core.TenantID]core.PoolID{boundTenant: "gold"}, Strict: true, Scope: core.ScopeAll,
	},
	{
		Defined:   []core.PoolDefinition{{ID: "silver", RequiredServices: []string{"x"}}, {ID: "gold", RequiredServices: []string{"x"}}},
		Overrides: map[core.TenantID]core.PoolID{boundTenant: "gold"}, Strict: true, Seed: 3,
	},
	{},
}

// poolChaos defines pools and moves nodes at random.
type poolChaos struct {
	*chaos
	mu        sync.Mutex
	specs     map[core.JobID]core.Spec
	divisions []divisionAt
	checked   map[string]int // slots that were checked, by what applied to them
}

// divisionAt is a division with the time since which it was in force.
type divisionAt struct {
	*core.Pools
	since time.Time
}

func (p *poolChaos) setPools(d *core.Pools) {
	p.mu.Lock()
	p.divisions = append(p.divisions, divisionAt{d, time.Now()})
	p.mu.Unlock()
	p.fleet.SetPools(d)
}

// redefine publishes other pools from time to time.
func (p *poolChaos) redefine(ctx context.Context) {
	for i := 1; ctx.Err() == nil; i++ {
		time.Sleep(2*time.Second + p.upTo(3*time.Second))
		p.setPools(poolDivisions[i%len(poolDivisions)])
	}
}

func (p *poolChaos) randomServices(int) []core.Service {
	services := []core.Service{}
	for _, id := range []string{"x", "y"} {
		if p.chance(0.6) {
			services = append(services, core.Service{ID: id, Status: core.ServiceReady})
		}
	}
	return services
}

// redeclare changes the services of a node by a heartbeat from time to time.
func (p *poolChaos) redeclare(ctx context.Context, i int) {
	for ctx.Err() == nil {
		time.Sleep(p.upTo(2 * time.Second))
		p.redeclareNow(core.NodeID(nodeName(i)))
	}
}

func (p *poolChaos) redeclareNow(id core.NodeID) {
	// the node may be gone, or the store may fail
	_, _ = p.registry.Heartbeat(p.t.Context(), nodes.Heartbeat{Node: id, Change: core.Change{Declaration: core.Declaration{Capability: core.Capability{Services: p.randomServices(0)}}}})
}

// reserved checks a slot that was granted. Some nodes change right after that, before the job has a record.
func (p *poolChaos) reserved(r store.ReserveParams, v store.Verdict) {
	p.check(r, v)
	if p.chance(0.1) {
		p.redeclareNow(r.Lease.Node)
	}
}

// bind makes every other client one of the bound tenant, and some jobs require a service.
func (p *poolChaos) bind(who int, s *core.Spec) {
	if who%2 == 0 {
		s.Tenant = boundTenant
	}
	if who%3 == 0 {
		s.Options.RequiredServices = []string{"y"}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.specs[s.Job()] = *s
}

// decisionLimit is how long ago a selection may have read the pools when its slot is granted.
const decisionLimit = time.Second

// check checks a slot that was granted.
func (p *poolChaos) check(r store.ReserveParams, v store.Verdict) {
	status, err := store.ReadNode(context.Background(), p.mem, r.Lease.Node)
	if v != store.OK || err != nil || status.Node.Epoch != r.Epoch || status.Node.Revision != r.Revision {
		return // it has changed since
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	spec := p.specs[r.Lease.Job]
	if job, err := p.mem.Get(context.Background(), r.Lease.Job); err == nil {
		spec.Pool = job.Pool
	}
	allowed := false
	for i, d := range p.divisions {
		last := i == len(p.divisions)-1
		if last || time.Since(p.divisions[i+1].since) < decisionLimit {
			allowed = allowed || p.allows(d.Pools, &spec, status.Node)
		}
	}
	if !allowed {
		p.t.Errorf("attempt %d of job %s (tenant %q, pool %+v) got a slot of %s with the services %v", r.Lease.Attempt, r.Lease.Job,
			spec.Tenant, spec.Pool,
			r.Lease.Node, status.Node.Services)
	}
	if p.checked == nil {
		p.checked = make(map[string]int)
	}
	kind := "any job"
	if spec.Pool.Bound || spec.Tenant == boundTenant {
		kind = "bound job"
	}
	if r.Lease.Attempt > 1 {
		kind += ", retried"
	}
	p.checked[kind]++
}

// allows reports whether a job may run on a node by a division.
func (p *poolChaos) allows(d *core.Pools, s *core.Spec, n *core.Node) bool {
	var pool core.PoolID
	if d.Enabled() {
		pool = d.Assign(n).Pool
	}
	switch {
	case s.Pool.Bound:
		return pool == s.Pool.ID
	case s.Tenant == boundTenant && d.Enabled():
		return pool == "gold"
	case !d.Strict:
		return true
	case d.Scope == core.ScopeAll && len(s.Options.RequiredServices) > 0:
		return pool == "gold" || pool == "silver" // which require y
	}
	return pool != ""
}

// summarise checks the records of all jobs, and fails the test if it has checked too little.
func (p *poolChaos) summarise() {
	bound := 0
	for id := range p.specs {
		job, err := p.mem.Get(p.t.Context(), id)
		if err != nil || !job.Pool.Bound {
			continue
		}
		if bound++; job.Tenant != boundTenant || job.Pool.ID != "gold" {
			p.t.Errorf("job %s of the tenant %q is bound to the pool %q", id, job.Tenant, job.Pool.ID)
		}
	}
	if bound < 10 {
		p.t.Errorf("%d records are of bound jobs: too few", bound)
	}
	p.t.Logf("slots that were checked: %v; pools were defined %d times", p.checked, len(p.divisions))
	for _, kind := range []string{"any job", "bound job", "any job, retried", "bound job, retried"} {
		if p.checked[kind] < 10 {
			p.t.Errorf("%d slots of a %s were checked: too few", p.checked[kind], kind)
		}
	}
}
