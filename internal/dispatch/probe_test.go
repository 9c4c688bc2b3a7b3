package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// fakeProbe is a probe that returns when the test lets it, one call at a time.
type fakeProbe struct {
	gate      chan struct{}
	calls     [][]core.NodeID
	occupancy map[core.NodeID]store.Occupancy
	err       error
}

func (c *fakeProbe) probe(nodes []core.NodeID, into []store.Occupancy) error {
	c.calls = append(c.calls, nodes)
	<-c.gate
	for i, id := range nodes {
		into[i] = c.occupancy[id]
	}
	return c.err
}

// TestProbesAreBatched: the store is called once for all requests that came before the call, and once more for
// those that came during it.
func TestProbesAreBatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &fakeProbe{gate: make(chan struct{}),
			occupancy: map[core.NodeID]store.Occupancy{"a": {Max: 4, Running: 1}, "b": {Max: 1, Running: 1}}}
		l := newProber(func(fn func()) { go fn() }, c.probe)
		var all sync.WaitGroup
		var claimed, wrong atomic.Int64
		search := func(nodes ...core.NodeID) {
			all.Go(func() {
				k, err := l.read(t.Context(), nodes)
				if err != nil || *k.occupancyOf(nodes[0]) != c.occupancy[nodes[0]] {
					wrong.Add(1)
					return
				}
				if k.claimSlot(nodes[0]) {
					claimed.Add(1)
				}
			})
		}
		search("a")
		synctest.Wait()
		for range 50 {
			search("b", "a")
			search("a", "c")
		}
		synctest.Wait()
		if diff := cmp.Diff([][]core.NodeID{{"a"}}, c.calls); diff != "" {
			t.Errorf("a second call during the first (-want +got):\n%s", diff)
		}
		c.gate <- struct{}{}
		synctest.Wait()
		if claimed.Load() != 1 {
			t.Errorf("%d requests have a result, want 1", claimed.Load())
		}
		c.gate <- struct{}{}
		all.Wait()
		if len(c.calls) != 2 || len(c.calls[1]) != 3 {
			t.Errorf("calls %v, want a, and then all three at once", c.calls)
		}
		if claimed.Load() != 1+3 || wrong.Load() != 0 {
			t.Errorf("%d requests claimed one of three free slots, %d got a wrong result", claimed.Load()-1, wrong.Load())
		}
	})
}

// TestFailedProbeFailsOnlyItsBatch: a failed call fails all requests of its batch and no others. A request whose context ends
// does not affect the others.
func TestFailedProbeFailsOnlyItsBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &fakeProbe{gate: make(chan struct{}), err: errors.New("the store is down")}
		l := newProber(func(fn func()) { go fn() }, c.probe)
		var all sync.WaitGroup
		results := make([]error, 5)
		search := func(ctx context.Context, i int) {
			all.Go(func() { _, results[i] = l.read(ctx, []core.NodeID{core.NodeID(fmt.Sprint(i))}) })
			synctest.Wait()
		}
		short, cancel := context.WithCancel(t.Context())
		search(short, 0) // makes the call
		search(short, 1)
		search(t.Context(), 2)
		cancel()
		synctest.Wait()
		if !errors.Is(results[0], context.Canceled) || !errors.Is(results[1], context.Canceled) {
			t.Errorf("the cancelled requests got %v and %v", results[0], results[1])
		}
		search(t.Context(), 3)
		c.gate <- struct{}{}
		synctest.Wait()
		c.gate <- struct{}{}
		synctest.Wait()
		if results[2] == nil || results[3] == nil {
			t.Errorf("the requests of the failed calls got %v and %v", results[2], results[3])
		}
		c.err = nil
		search(t.Context(), 4)
		c.gate <- struct{}{}
		all.Wait()
		if results[4] != nil {
			t.Error(results[4])
		}
	})
}

// TestLargeProbeIsDivided: so that each result comes in time.
func TestLargeProbeIsDivided(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &fakeProbe{gate: make(chan struct{})}
		l := newProber(func(fn func()) { go fn() }, c.probe)
		var all sync.WaitGroup
		const batch, batches = 64, 3 * maxBatchNodes / 64
		for n := range batches {
			var nodes []core.NodeID
			for i := range batch {
				nodes = append(nodes, core.NodeID(fmt.Sprint(n*batch+i)))
			}
			all.Go(func() { _, _ = l.read(t.Context(), nodes) })
		}
		synctest.Wait()
		close(c.gate)
		all.Wait()
		sum := 0
		for _, nodes := range c.calls {
			if sum += len(nodes); len(nodes) > maxBatchNodes {
				t.Errorf("%d nodes were probed in one call", len(nodes))
			}
		}
		if sum != batch*batches {
			t.Errorf("%d nodes were probed, want %d", sum, batch*batches)
		}
	})
}

// TestUnclaimedSlotCanBeClaimedAgain: by another request.
func TestUnclaimedSlotCanBeClaimedAgain(t *testing.T) {
	t.Parallel()
	k := &probeBatch{index: map[core.NodeID]int{"a": 0}, unclaimed: []int{1}}
	first, second := k.claimSlot("a"), k.claimSlot("a")
	k.unclaimSlot("a")
	if third := k.claimSlot("a"); !first || second || !third {
		t.Errorf("claims %v, %v, and %v after the claim was returned; want true, false, true", first, second, third)
	}
}

// TestOnlyAdmittedSlotsAreClaimed: as many requests try to reserve as slots are free that may be granted, whatever the node declares.
func TestOnlyAdmittedSlotsAreClaimed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &fakeProbe{gate: make(chan struct{}), occupancy: map[core.NodeID]store.Occupancy{
			"limited": {Max: 8, Withheld: 5, Running: 1}, "over": {Max: 8, Withheld: 7, Running: 3}, "ejected": {Max: 8, Withheld: 8},
		}}
		close(c.gate)
		k, err := newProber(func(fn func()) { go fn() }, c.probe).read(t.Context(), []core.NodeID{"limited", "over", "ejected"})
		if err != nil {
			t.Fatal(err)
		}
		for id, want := range map[core.NodeID]int{"limited": 2, "over": 0, "ejected": 0} {
			got := 0
			for range 10 {
				if k.claimSlot(id) {
					got++
				}
			}
			if got != want {
				t.Errorf("%d slots of %s were claimed, want %d", got, id, want)
			}
		}
	})
}
