package waiting

import (
	"context"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

const (
	benchNodes   = 10_000
	benchClasses = 512
)

// noOffers is a store in which no waiter is offered a slot: what is measured is how the offers are prepared.
type noOffers struct{ *memstore.Store }

func (noOffers) Offer(context.Context, core.PoolID, int, []string) (fairqueue.OfferResult, error) {
	return fairqueue.OfferResult{}, nil
}

// newBenchQueue makes a queue with 512 open classes and 10,000 nodes, each of which serves some of them.
func newBenchQueue(b *testing.B) *Queue {
	mem := memstore.New(store.Timing{Presence: time.Hour})
	return newCrowdedQueue(b, noOffers{mem}, benchNodes, benchClasses)
}

// BenchmarkWaitSweepRound makes the list of the nodes that are to be swept.
func BenchmarkWaitSweepRound(b *testing.B) {
	q := newBenchQueue(b)
	b.ReportAllocs()
	for b.Loop() {
		if n := len(q.keeper.nodesFor(q.open.filters(""))); n == 0 {
			b.Fatal("no node is wanted")
		}
	}
}

// BenchmarkOfferBatch offers the free slots of the nodes that one sweep probes.
func BenchmarkOfferBatch(b *testing.B) {
	q := newBenchQueue(b)
	batch := make(map[*fleet.Node]int)
	for n := range q.options.Fleet.All() {
		if len(batch) == maxSwept {
			break
		}
		batch[n] = 1
	}
	b.ReportAllocs()
	for b.Loop() {
		q.offers.offerAll(b.Context(), batch)
	}
}

// BenchmarkWaitArrival checks, as for a request that arrives, whether others wait for 20 nodes.
func BenchmarkWaitArrival(b *testing.B) {
	q := newBenchQueue(b)
	var nodes []*fleet.Node
	for n := range q.options.Fleet.All() {
		if nodes = append(nodes, n); len(nodes) == 20 {
			break
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		w := q.Claims(b.Context())
		for _, n := range nodes {
			w.Want(n)
		}
	}
}

// BenchmarkWaitSample chooses the nodes that are probed when the first request of a class begins to wait.
func BenchmarkWaitSample(b *testing.B) {
	q := newBenchQueue(b)
	class, _ := newWaitClass(q.options.Fleet, variedSpec(0), nil)
	b.ReportAllocs()
	for b.Loop() {
		q.keeper.sample(class, maxSurveyed)
	}
}
