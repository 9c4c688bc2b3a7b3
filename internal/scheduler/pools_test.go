package scheduler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestBoundTenantStaysInItsPool sends jobs of a tenant that is bound to a pool, and of others, through all instances while nodes move between
// the pools, fail and lose jobs, the pools are defined anew by reloads of any instance, and the primary of Redis is killed. No job of the
// tenant reaches a node outside of its pool, the records of its jobs name the pool, and with strict pools no job reaches a node without a pool.
func TestBoundTenantStaysInItsPool(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		startPoolTraffic(t, 1, "memory").run(func() {})
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		startPoolTraffic(t, 3, redistest.Start(t).URL()).run(func() {})
	})
	t.Run("Sentinel", func(t *testing.T) {
		t.Parallel()
		redis := redistest.StartSentinel(t)
		startPoolTraffic(t, 3, redis.URL()).run(func() {
			redis.KillPrimary()
			redis.WaitHealthy(waitLimit)
		})
	})
}

const (
	poolNodes = 12
	// poolSlack is how long after a change of a node or of the pools an instance may still use what was before: a second to adopt other pools,
	// and the time of a decision and a delivery.
	poolSlack = 5 * time.Second
	goldJobs  = 50 // deliveries of the bound tenant that each phase waits for
)

// poolTraffic is nodes and clients in this process.
type poolTraffic struct {
	t         *testing.T
	instances cluster
	ctx       context.Context
	running   sync.WaitGroup
	file      atomic.Pointer[config.Config] // what a reload loads

	mu        sync.Mutex
	divisions []recorded[*core.Pools]
	services  map[core.NodeID][]recorded[[]core.Service]
	bound     int // deliveries of the bound tenant
	retried   int // of them retries
	others    int
}

// recorded is a value with the time since which it is certainly in force; zero: it is being put in force, and may already be used.
type recorded[V any] struct {
	value V
	since time.Time
}

// recent returns the values that were in force during the last poolSlack.
func recent[V any](all []recorded[V]) (values []V) {
	for i, r := range all {
		if i == len(all)-1 || all[i+1].since.IsZero() || time.Since(all[i+1].since) < poolSlack {
			values = append(values, r.value)
		}
	}
	return values
}

// poolTables are the pools that are in force in turn.
func poolTables() []config.Phase3 {
	x := config.PoolTable{PoolID: "gold", RequiredServices: []string{"x"}}
	both := config.PoolTable{PoolID: "gold", RequiredServices: []string{"x", "y"}}
	y := config.PoolTable{PoolID: "silver", RequiredServices: []string{"y"}}
	table := func(seed int, pools ...config.PoolTable) config.Phase3 {
		p := config.Default().Scheduler.Phase3
		p.Enabled, p.StrictPoolEligibility, p.HashSeed, p.Pools = true, true, seed, pools
		p.TenantOverrides = []config.TenantOverride{{TenantID: "acme", PoolID: "gold"}}
		return p
	}
	return []config.Phase3{table(0, x, y), table(1, both, y), table(2, y, x)}
}

func startPoolTraffic(t *testing.T, instances int, url string) *poolTraffic {
	t.Helper()
	cfg := config.Default()
	c := &cfg.Scheduler
	c.Phase3 = poolTables()[0]
	withoutHeartbeats(&cfg)
	c.Dispatch.ACKTimeoutMS, c.Dispatch.AttemptTimeoutMS = 1000, 2000 // a job of which a node says nothing takes its slot for so long
	c.OutlierEjection.Enabled = false                                 // these nodes fail often
	p := &poolTraffic{t: t, services: make(map[core.NodeID][]recorded[[]core.Service])}
	p.file.Store(&cfg)
	p.divisions = []recorded[*core.Pools]{{cfg.Scheduler.Phase3.Division(), time.Now()}}
	var stop context.CancelFunc
	p.ctx, stop = context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(p.running.Wait) // after the instances have stopped, which deliver jobs
	p.instances = startInstances(t, instances, url, cfg, fleet.Direct(p.deliver))
	t.Cleanup(stop)
	for _, i := range p.instances {
		i.SetConfigSource(func() (config.Config, []string, error) { return *p.file.Load(), nil, nil })
	}
	for i := range poolNodes {
		p.declare(core.NodeID(fmt.Sprintf("n%02d", i)), true)
	}
	return p
}

// declare registers a node, or changes its services by a heartbeat.
func (p *poolTraffic) declare(id core.NodeID, register bool) {
	slots, url := 8, "http://127.0.0.1:9/jobs"
	services := []core.Service{}
	for _, s := range []string{"x", "y"} {
		if rand.N(10) < 6 {
			services = append(services, core.Service{ID: s, Status: core.ServiceReady})
		}
	}
	p.mu.Lock()
	last := len(p.services[id])
	p.services[id] = append(p.services[id], recorded[[]core.Service]{value: services})
	p.mu.Unlock()
	patch := core.Change{Declaration: core.Declaration{MaxJobs: slots, Callback: url, Capability: core.Capability{Semantic: core.LangSet{"en", "zh"}, Services: services}}}
	for in := p.instances.anyInstance(); p.ctx.Err() == nil; run.Sleep(p.ctx, 20*time.Millisecond) {
		var err error
		if register {
			_, err = in.Nodes.Register(p.ctx, id, patch, nodes.Caller{}, store.Activity{})
		} else {
			_, err = in.Nodes.Heartbeat(p.ctx, nodes.Heartbeat{Node: id, Change: core.Change{Declaration: core.Declaration{Capability: core.Capability{Services: services}}}})
		}
		if err == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.services[id][last].since = time.Now()
			return
		}
	}
}

// deliver is fleet.Direct.
func (p *poolTraffic) deliver(_ context.Context, to *core.Node, a *wire.Assignment, r dispatch.Report) error {
	p.check(to, a)
	p.checkRecord(a)
	if rand.N(20) == 0 {
		return dispatch.ErrRefused
	}
	p.running.Go(func() { p.runJob(r) })
	return nil
}

// check checks that a job may run on the node to which it was delivered.
func (p *poolTraffic) check(to *core.Node, a *wire.Assignment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	isBound := a.SessionID == "acme"
	var pools []core.PoolID
	for _, services := range recent(p.services[to.ID]) {
		for _, division := range recent(p.divisions) {
			n := core.Node{ID: to.ID, Declaration: core.Declaration{Capability: core.Capability{Services: services}}}
			pools = append(pools, division.Assign(&n).Pool)
		}
	}
	allowed := func(id core.PoolID) bool { return isBound && id == "gold" || !isBound && id != "" }
	if !slices.ContainsFunc(pools, allowed) {
		p.t.Errorf("attempt %d of a job of session %q was delivered to %s, which is in %q", a.AttemptID, a.SessionID, to.ID, pools)
	}
	switch {
	case !isBound:
		p.others++
	case a.AttemptID > 1:
		p.retried++
		fallthrough
	default:
		p.bound++
	}
}

// checkRecord checks that the record of a job that is bound names the pool of its tenant.
func (p *poolTraffic) checkRecord(a *wire.Assignment) {
	job, err := p.instances.anyInstance().Jobs.Job(p.ctx, core.JobID(a.JobID))
	if want := (core.JobPool{ID: "gold", Bound: true}); err == nil && (a.SessionID == "acme") != (job.Pool == want) {
		p.t.Errorf("the record of a job of session %q has the pool %+v", a.SessionID, job.Pool)
	}
}

// runJob acknowledges a job and reports its result, or fails, or says nothing.
func (p *poolTraffic) runJob(r dispatch.Report) {
	if rand.N(20) == 0 {
		return
	}
	report := func(fn func(in *instance) error) {
		for range 100 {
			if fn(p.instances.anyInstance()) == nil || !run.Sleep(p.ctx, 50*time.Millisecond) {
				return
			}
		}
	}
	report(func(in *instance) error { return in.Jobs.Reports.Ack(p.ctx, r) })
	run.Sleep(p.ctx, rand.N(100*time.Millisecond))
	if rand.N(10) == 0 {
		report(func(in *instance) error { return in.Jobs.Reports.Fail(p.ctx, r, core.ReasonNodeFailed, "") })
		return
	}
	report(func(in *instance) error { return in.Jobs.Reports.Done(p.ctx, r, nil) })
}

// send sends requests until the traffic ends.
func (p *poolTraffic) send(client int) {
	for i := 0; p.ctx.Err() == nil; i++ {
		s := core.Spec{
			Request: core.RequestID(fmt.Sprintf("r-%d-%d", client, i)), Session: "other", Direction: core.Direction{Src: "en", Tgt: "zh"}, AudioRef: "blob://a",
		}
		if client%2 == 0 {
			s.Tenant, s.Session = "acme", "acme"
		}
		_, _ = p.instances.anyInstance().Jobs.Dispatch(p.ctx, dispatch.Request{Spec: s}) // it may be refused
		run.Sleep(p.ctx, rand.N(20*time.Millisecond))
	}
}

// redefine publishes other pools through an instance.
func (p *poolTraffic) redefine(table config.Phase3) {
	next := *p.file.Load()
	next.Scheduler.Phase3 = table
	p.file.Store(&next)
	p.mu.Lock()
	last := len(p.divisions)
	p.divisions = append(p.divisions, recorded[*core.Pools]{value: table.Division()})
	p.mu.Unlock()
	// An instance that was not reloaded for some time may have loaded the same pools last.
	reloadAny := func() error {
		_, err := p.instances.anyInstance().Reload(config.ReloadRequest{PublishPools: true})
		return err
	}
	for reloadAny() != nil {
		run.Sleep(p.ctx, 50*time.Millisecond)
	}
	waitUntil(p.t, "all instances to adopt the pools", waitLimit, func() bool {
		return !slices.ContainsFunc(p.instances, func(in *instance) bool {
			d := in.Fleet.Division()
			return d == nil || d.Seed != uint64(table.HashSeed)
		})
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.divisions[last].since = time.Now()
}

// run runs the traffic. In the middle of it, it injects a fault.
func (p *poolTraffic) run(fault func()) {
	for i := range 6 {
		p.running.Go(func() { p.send(i) })
	}
	p.running.Go(func() {
		for run.Sleep(p.ctx, rand.N(100*time.Millisecond)) {
			p.declare(core.NodeID(fmt.Sprintf("n%02d", rand.N(poolNodes))), rand.N(5) == 0)
		}
	})
	tables := poolTables()
	for i := range 2 * len(tables) {
		if i == len(tables) {
			fault()
		}
		p.mu.Lock()
		want := p.bound + goldJobs
		p.mu.Unlock()
		waitUntil(p.t, "jobs of the bound tenant", waitLimit, func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.bound >= want
		})
		p.redefine(tables[(i+1)%len(tables)])
	}
	waitUntil(p.t, "retries and other deliveries", waitLimit, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.retried >= 10 && p.others >= 100
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.t.Logf("%d deliveries of the bound tenant, %d of them retries; %d others", p.bound, p.retried, p.others)
}

// TestCapacityOfADirectionInPools: the slots of a direction are those of all pools and of the nodes without one, each once.
func TestCapacityOfADirectionInPools(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Scheduler.Phase3 = poolTables()[0]
	s := newSchedulerWith(t, cfg, newInstantTransport())
	t.Cleanup(func() {
		if err := s.Store.Close(); err != nil {
			t.Error(err)
		}
	})
	slots, url := 3, "http://127.0.0.1:9/jobs"
	for i, service := range []string{"x", "y", "z"} {
		p := core.Change{Declaration: core.Declaration{MaxJobs: slots, Callback: url, Capability: core.Capability{Semantic: core.LangSet{"en", "zh"}, Services: []core.Service{{ID: service, Status: core.ServiceReady}}}}}
		if _, err := s.Nodes.Register(t.Context(), core.NodeID(fmt.Sprint("n", i)), p, nodes.Caller{}, store.Activity{}); err != nil {
			t.Fatal(err)
		}
	}
	d := core.Direction{Src: "en", Tgt: "zh"}
	s.Fleet.Route(d, false)
	s.Fleet.RestrictedRoute(d, false, &core.Restriction{Services: []string{"x"}})
	families, err := s.Metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "lingua_capacity_slots" {
			if got := f.GetMetric()[0].GetGauge().GetValue(); len(f.GetMetric()) != 1 || got != 9 {
				t.Errorf("%d directions, the first with %v slots, want one with 9", len(f.GetMetric()), got)
			}
			return
		}
	}
	t.Error("there is no such metric")
}
