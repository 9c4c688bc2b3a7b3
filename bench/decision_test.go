package bench

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

var decisionFleets = []int{100, 10_000, 100_000}

// BenchmarkDecision is one decision: draw candidates from the nodes of a direction, reserve a slot of the better one in the memory store,
// and release it.
func BenchmarkDecision(b *testing.B) {
	for _, nodes := range decisionFleets {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			d := newDecisionBench(b, nodes)
			b.ReportAllocs()
			for b.Loop() {
				d.decide(b)
			}
		})
	}
}

// BenchmarkDecisionGrowth measures a decision with fleets of different sizes in turn, and reports the nanoseconds of each
// and the largest as a multiple of the smallest. It also reports how the memory latency alone grows with the number of
// nodes: no decision can grow by less.
func BenchmarkDecisionGrowth(b *testing.B) {
	deciders := make([]*decisionBench, len(decisionFleets))
	for i, nodes := range decisionFleets {
		deciders[i] = newDecisionBench(b, nodes)
	}
	few, many := newMemoryBaseline(decisionFleets[0], 1, 1), newMemoryBaseline(decisionFleets[len(decisionFleets)-1], 1, 1)
	for b.Loop() {
		costs, wait := decideInTurns(b, 41, deciders, []int{0}, few, many)
		for i, nodes := range decisionFleets {
			b.ReportMetric(costs[i], fmt.Sprintf("ns-%d", nodes))
		}
		b.ReportMetric(costs[len(costs)-1]/costs[0], "growth")
		b.ReportMetric(wait, "ns-memory")
	}
	b.ReportMetric(0, "ns/op")
}

// decideInTurns returns the median cost in nanoseconds of a decision of each, and by how much more memory latency costs with many nodes than
// with few, where the directions have these shares.
func decideInTurns(b *testing.B, turns int, deciders []*decisionBench, shares []int, few, many *memoryBaseline) (costs []float64, wait float64) {
	b.Helper()
	const each = 20_000
	all := make([][]float64, len(deciders))
	var waits []float64
	for range turns {
		waits = append(waits, float64((many.chase(each, shares) - few.chase(each, shares)).Nanoseconds()))
		for i, d := range deciders {
			began := time.Now()
			for range each {
				d.decide(b)
			}
			all[i] = append(all[i], float64(time.Since(began).Nanoseconds())/each)
		}
	}
	for _, list := range all {
		costs = append(costs, stats.Median(list))
	}
	return costs, stats.Median(waits)
}

// decisionBench is a fleet in which decisions are made.
type decisionBench struct {
	mem    *memstore.Store
	view   *fleet.Fleet
	picker *pick.Picker

	directions []core.Direction // are used in turn
	next       int
}

var decisionPolicy = pick.Policy{
	SampleK: 20, ScanMax: 512, StaleAfter: time.Hour, Shuffle: true, CPUMax: 0.95, GPUMax: 0.98, MemoryMax: 0.95,
}

var decisionTiming = store.Timing{
	Presence: time.Hour, ReservedTTL: 5 * time.Second, Attempt: 15 * time.Second, Job: 30 * time.Second, Retention: time.Minute,
}

func newDecisionBench(b *testing.B, nodes int) *decisionBench {
	b.Helper()
	d := &decisionBench{directions: []core.Direction{{Src: "en", Tgt: "zh"}}, mem: memstore.New(decisionTiming), view: fleet.New(decisionTiming.Presence)}
	for i := range nodes {
		r, err := d.mem.Register(b.Context(), store.RegisterParams{
			Node: core.Node{
				ID: core.NodeID(fmt.Sprintf("node-%06d", i)), Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 4, Callback: "http://127.0.0.1:9/",
					Capability: core.Capability{Semantic: core.NewLangSet("en", "zh"), AnyPair: true}},
			},
			Load: core.Load{CPU: 0.5, GPU: 0.5, Memory: 0.5},
		})
		if err != nil {
			b.Fatal(err)
		}
		d.view.Update(r.NodeStatus)
	}
	d.picker = pick.New(d.view, decisionPolicy, nil)
	if got := d.view.Route(core.Direction{Src: "en", Tgt: "zh"}, false).Stops[0].Index.Len(); got != nodes {
		b.Fatalf("the index has %d members, want %d", got, nodes)
	}
	runtime.GC() // the garbage of the set-up is not part of a decision
	return d
}

var noOptions core.Options

// decide makes one decision and undoes it.
func (d *decisionBench) decide(b *testing.B) {
	now := d.view.Now()
	if d.next++; d.next >= len(d.directions) {
		d.next = 0
	}
	route := d.view.Route(d.directions[d.next], false)
	round := d.picker.Select(pick.Query{Requirement: route.Requirement, Options: &noOptions, Pools: core.PoolRule{Division: route.Division, Options: &noOptions}, Now: now}, route, pick.Eligible, "")
	round.NextPool()
	n := round.Next()
	ref := core.LeaseRef{Node: n.ID(), Job: "job-1", Attempt: 1, Token: "t-1"}
	r, err := d.mem.Reserve(context.Background(), store.ReserveParams{
		Lease: ref, Handle: n.Handle(), Epoch: n.Epoch, Revision: n.Revision,
	})
	if err != nil || r.Verdict != store.OK {
		b.Fatal(r.Verdict, err)
	}
	n.BeginJob()
	d.view.ObserveFree(n.Node, r.Free, now)
	if err := d.mem.Release(context.Background(), store.ReleaseParams{Lease: ref, Handle: n.Handle()}); err != nil {
		b.Fatal(err)
	}
	n.EndJob()
	round.End()
}
