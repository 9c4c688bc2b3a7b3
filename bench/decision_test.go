package bench

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

// BenchmarkDecision is one decision: draw candidates from the pool, reserve a slot of the better one in the
// memory store, and give it back.
func BenchmarkDecision(b *testing.B) {
	for _, nodes := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) { benchmarkDecision(b, nodes) })
	}
}

func benchmarkDecision(b *testing.B, nodes int) {
	ctx := context.Background()
	timing := store.Timing{Presence: time.Hour, Judge: 5 * time.Second, Attempt: 15 * time.Second, Job: 30 * time.Second, Keep: time.Minute}
	mem := memstore.New(timing)
	view := fleet.New(timing.Presence)
	for i := range nodes {
		r, err := mem.Register(ctx, store.RegisterParams{
			Node: core.Node{
				ID: core.NodeID(fmt.Sprintf("node-%06d", i)), Health: core.HealthReady, MaxJobs: 4, Callback: "http://127.0.0.1:9/",
				Capability: core.Capability{Semantic: core.NewLangSet("en", "zh"), AnyPair: true},
			},
			Load: core.Load{CPU: 0.5, GPU: 0.5, Memory: 0.5},
		})
		if err != nil {
			b.Fatal(err)
		}
		view.Update(r.NodeStatus)
	}
	picker := pick.New(view, pick.Policy{
		SampleK: 20, ScanMax: 512, StaleAfter: time.Hour, Shuffle: true, CPUMax: 0.95, GPUMax: 0.98, MemoryMax: 0.95,
	}, nil)
	pool := view.Pool(core.Direction{Src: "en", Tgt: "zh"}, false)
	if got := pool.Members().Len(); got != nodes {
		b.Fatalf("the pool has %d members, want %d", got, nodes)
	}
	options := &core.Options{}

	runtime.GC() // what building the fleet left behind is not part of a decision
	b.ReportAllocs()
	for b.Loop() {
		now := view.Now()
		round := picker.Begin(pick.Query{Wish: &pool.Wish, Options: options, Now: now}, pool.Members())
		n := round.Next()
		ref := core.LeaseRef{Node: n.ID(), Job: "job-1", Attempt: 1, Token: "t-1"}
		r, err := mem.Reserve(ctx, store.ReserveParams{
			Lease: ref, Handle: n.Handle(), Epoch: n.Epoch(), Revision: n.Revision, Instance: "i-1", Timeout: timing.Attempt,
		})
		if err != nil || r.Verdict != store.OK {
			b.Fatal(r.Verdict, err)
		}
		view.Observe(n.Node, r.InFlight, r.Max, now)
		o, err := mem.Release(ctx, store.ReleaseParams{Lease: ref, Handle: n.Handle()})
		if err != nil {
			b.Fatal(err)
		}
		view.Observe(n.Node, o.InFlight(), o.Max, now)
		round.End()
	}
}
