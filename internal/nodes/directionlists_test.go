package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// slowProbes is a store whose probes take a while.
type slowProbes struct {
	nodes.Store
	takes time.Duration
	mu    sync.Mutex
	calls int
	err   error
}

func (s *slowProbes) Probe(ctx context.Context, ids []core.NodeID, out []store.Occupancy) error {
	s.mu.Lock()
	s.calls++
	err := s.err
	s.mu.Unlock()
	time.Sleep(s.takes)
	if err != nil {
		return err
	}
	return s.Store.Probe(ctx, ids, out)
}

func (s *slowProbes) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// TestDirectionListsAreShared checks that many requests for a list cost one pass, that another pass follows only after fifty times as long
// as it took, and that other lists are not mixed up with it.
func TestDirectionListsAreShared(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		for i := range 500 {
			h.add(core.NodeID(fmt.Sprint("a-", i)), 2)
		}
		slow := &slowProbes{Store: h.store, takes: 20 * time.Millisecond}
		lists := nodes.NewDirectionLists(h.registryOf("i-1", slow))
		list := func(f nodes.DirectionFilter) []nodes.DirectionCapacity {
			got, more, err := lists.List(t.Context(), f, core.Direction{}, 10)
			if err != nil || more {
				t.Errorf("more %v, %v", more, err)
			}
			return got
		}
		began := time.Now()
		want := list(nodes.DirectionFilter{})
		if took := time.Since(began); took != slow.takes {
			t.Errorf("a list took %v", took)
		}
		if len(want) != 2 {
			t.Fatalf("%d directions, want 2", len(want))
		}
		var requests sync.WaitGroup
		for range 50 {
			requests.Go(func() {
				if diff := cmp.Diff(want, list(nodes.DirectionFilter{})); diff != "" {
					t.Errorf("another list (-want +got):\n%s", diff)
				}
			})
		}
		requests.Wait()
		if n := slow.count(); n != 1 {
			t.Errorf("%d passes for 51 requests", n)
		}
		other := core.TenantID("other")
		if got := list(nodes.DirectionFilter{Tenant: &other}); len(got) != 0 {
			t.Errorf("directions of another tenant: %+v", got)
		}
		also := core.Direction{Src: "ja", Tgt: "ko"}
		if got := list(nodes.DirectionFilter{Also: []core.Direction{also, want[0].Direction}}); len(got) != 3 || got[1].Direction != also ||
			got[1].Nodes != 0 {
			t.Errorf("with another direction: %+v", got)
		}
		time.Sleep(1100 * time.Millisecond)
		h.add("b", 3)
		if got := list(nodes.DirectionFilter{}); got[0].Capacity != 1003 {
			t.Errorf("after a second: %+v", got)
		}
		for i := range 100 { // filters that callers choose take no more memory
			list(nodes.DirectionFilter{Region: fmt.Sprint("region-", i)})
		}
		time.Sleep(time.Minute)
		slow.mu.Lock()
		slow.err = errors.New("the store is down")
		slow.mu.Unlock()
		if _, _, err := lists.List(t.Context(), nodes.DirectionFilter{}, core.Direction{}, 10); err == nil {
			t.Error("the store did not answer, and there is a list")
		}
		slow.mu.Lock()
		slow.err = nil
		slow.mu.Unlock()
		list(nodes.DirectionFilter{})
		time.Sleep(time.Minute)
		cancelled, cancel := context.WithCancel(t.Context())
		go func() { _, _, _ = lists.List(t.Context(), nodes.DirectionFilter{}, core.Direction{}, 10) }()
		synctest.Wait()
		cancel()
		if _, _, err := lists.List(cancelled, nodes.DirectionFilter{}, core.Direction{}, 10); err == nil {
			t.Error("a request that has ended waits for a list")
		}
		time.Sleep(time.Second)
	})
}

// TestDirectionListsOfASmallFleetAreNew checks that a request sees every change before it.
func TestDirectionListsOfASmallFleetAreNew(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		lists := nodes.NewDirectionLists(h.registryOf("i-1", &slowProbes{Store: h.store, takes: time.Second}))
		for i := range 10 {
			h.add(core.NodeID(fmt.Sprint("a-", i)), 2)
			got, _, err := lists.List(t.Context(), nodes.DirectionFilter{}, core.Direction{}, 10)
			if err != nil || got[0].Capacity != 2*(i+1) {
				t.Fatalf("after node %d: %+v, %v", i, got, err)
			}
		}
	})
}
