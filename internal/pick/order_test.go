package pick_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
)

// dividedFleet makes a fleet with one pool for each number of nodes. Of the nodes of each pool every third is not ready.
func dividedFleet(sizes ...int) *fleet.Fleet {
	f := fleet.New(time.Hour)
	var pools core.Pools
	for p, size := range sizes {
		service := fmt.Sprint("service-", p)
		pools.Defined = append(pools.Defined, core.PoolDefinition{ID: core.PoolID(fmt.Sprint("pool-", p)), RequiredServices: []string{service}})
		for i := range size {
			n := declared(core.NodeID(fmt.Sprintf("n-%d-%d", p, i)))
			n.Capability.Services = []core.Service{{ID: service, Status: core.ServiceReady}}
			if i%3 == 2 {
				n.Health = core.HealthDegraded
			}
			f.Update(status(n))
		}
	}
	f.SetPools(&pools)
	return f
}

// TestPoolsAreChosenUniformlyOverNodes checks that each ready node is chosen as often as any other, however large its pool is.
func TestPoolsAreChosenUniformlyOverNodes(t *testing.T) {
	t.Parallel()
	f := dividedFleet(1, 3, 30, 300)
	picker := pick.New(f, defaultPolicy(), seeded(1))
	route := f.Route(direction, false)
	const choices = 100_000
	counts := make(map[core.NodeID]int)
	var order pick.PoolOrder
	for range choices {
		order.Order(picker, route)
		stop, ok := order.Next()
		if !ok {
			t.Fatal("there is no pool")
		}
		r := picker.Select(pick.Query{Requirement: &stop.Index.Requirement, Options: new(core.Options), Now: f.Now()}, stop.Index)
		counts[r.Next().ID()]++
		r.End()
	}
	ready := 1 + 2 + 20 + 200
	if len(counts) != ready || route.Ready() != ready {
		t.Errorf("%d nodes were chosen and %d counted as ready, want %d", len(counts), route.Ready(), ready)
	}
	mean := float64(choices) / float64(ready)
	for id, n := range counts {
		if deviation := math.Abs(float64(n)-mean) / math.Sqrt(mean); deviation > 5 {
			t.Errorf("%s was chosen %d times, %.1f standard deviations from the mean of %.0f", id, n, deviation, mean)
		}
	}
}

// TestOrderVisitsEveryPoolOnce checks that an order has each pool once, those without ready nodes last.
func TestOrderVisitsEveryPoolOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		route := &fleet.Route{}
		for i, ready := range rapid.SliceOfN(rapid.IntRange(0, 3), 0, 12).Draw(t, "ready") {
			route.Stops = append(route.Stops, fleet.Stop{Pool: core.PoolID(fmt.Sprint(i)), Ready: ready, Before: route.Ready()})
		}
		var order pick.PoolOrder
		for range 3 { // an order is used again
			order.Order(pick.New(fleet.New(time.Hour), defaultPolicy(), seeded(rapid.Uint64().Draw(t, "seed"))), route)
			visited, empty := make(map[core.PoolID]bool), false
			for stop, ok := order.Next(); ok; stop, ok = order.Next() {
				if visited[stop.Pool] || empty && stop.Ready > 0 {
					t.Fatalf("pool %s comes at the wrong time", stop.Pool)
				}
				visited[stop.Pool], empty = true, stop.Ready == 0
			}
			if len(visited) != len(route.Stops) {
				t.Fatalf("%d of %d pools were visited", len(visited), len(route.Stops))
			}
		}
	})
}
