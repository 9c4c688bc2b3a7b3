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

// clerk answers questions of looks one at a time, when it is let.
type clerk struct {
	gate  chan struct{}
	asked [][]core.NodeID
	full  map[core.NodeID]store.Occupancy
	err   error
}

func (c *clerk) ask(nodes []core.NodeID, into []store.Occupancy) error {
	c.asked = append(c.asked, nodes)
	<-c.gate
	for i, id := range nodes {
		into[i] = c.full[id]
	}
	return c.err
}

// TestLooksAreShared: however many look, the store is asked once for those who came before it was asked, and once more for
// those who came while it was.
func TestLooksAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{gate: make(chan struct{}), full: map[core.NodeID]store.Occupancy{"a": {Max: 4, Running: 1}, "b": {Max: 1, Running: 1}}}
		l := newProber(func(fn func()) { go fn() }, c.ask)
		var all sync.WaitGroup
		var claimed, wrong atomic.Int64
		search := func(nodes ...core.NodeID) {
			all.Go(func() {
				k, err := l.read(t.Context(), nodes)
				if err != nil || *k.occupancyOf(nodes[0]) != c.full[nodes[0]] {
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
		if diff := cmp.Diff([][]core.NodeID{{"a"}}, c.asked); diff != "" {
			t.Errorf("a second question while the first waits (-want +got):\n%s", diff)
		}
		c.gate <- struct{}{}
		synctest.Wait()
		if claimed.Load() != 1 {
			t.Errorf("%d know how full it is", claimed.Load())
		}
		c.gate <- struct{}{}
		all.Wait()
		if len(c.asked) != 2 || len(c.asked[1]) != 3 {
			t.Errorf("asked %v, want a, and then all three at once", c.asked)
		}
		if claimed.Load() != 1+3 || wrong.Load() != 0 {
			t.Errorf("%d tried to get one of three free slots, %d got a wrong answer", claimed.Load()-1, wrong.Load())
		}
	})
}

// TestALookThatFails fails for all who share it, and for nobody else. Who does not wait any more takes nobody with them.
func TestALookThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{gate: make(chan struct{}), err: errors.New("the store is away")}
		l := newProber(func(fn func()) { go fn() }, c.ask)
		var all sync.WaitGroup
		results := make([]error, 5)
		search := func(ctx context.Context, i int) {
			all.Go(func() { _, results[i] = l.read(ctx, []core.NodeID{core.NodeID(fmt.Sprint(i))}) })
			synctest.Wait()
		}
		hurry, leave := context.WithCancel(t.Context())
		search(hurry, 0) // has the store asked
		search(hurry, 1)
		search(t.Context(), 2)
		leave()
		synctest.Wait()
		if !errors.Is(results[0], context.Canceled) || !errors.Is(results[1], context.Canceled) {
			t.Errorf("who left got %v and %v", results[0], results[1])
		}
		search(t.Context(), 3)
		c.gate <- struct{}{}
		synctest.Wait()
		c.gate <- struct{}{}
		synctest.Wait()
		if results[2] == nil || results[3] == nil {
			t.Errorf("who waited for an answer that did not come got %v and %v", results[2], results[3])
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

// TestALargeLook is divided, so that its answer comes in time.
func TestALargeLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{gate: make(chan struct{})}
		l := newProber(func(fn func()) { go fn() }, c.ask)
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
		for _, nodes := range c.asked {
			if sum += len(nodes); len(nodes) > maxBatchNodes {
				t.Errorf("the store was asked about %d nodes at once", len(nodes))
			}
		}
		if sum != batch*batches {
			t.Errorf("the store was asked about %d nodes, want %d", sum, batch*batches)
		}
	})
}

// TestASlotThatIsGivenBack can be tried by another.
func TestASlotThatIsGivenBack(t *testing.T) {
	t.Parallel()
	k := &probeBatch{index: map[core.NodeID]int{"a": 0}, unclaimed: []int{1}}
	first, second := k.claimSlot("a"), k.claimSlot("a")
	k.unclaimSlot("a")
	if third := k.claimSlot("a"); !first || second || !third {
		t.Errorf("%v, %v, and after it was given back %v", first, second, third)
	}
}
