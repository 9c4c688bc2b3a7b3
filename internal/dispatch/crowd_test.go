package dispatch_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// farStore takes its time to say how full nodes are.
type farStore struct {
	store.Store
	probed atomic.Int64 // nodes
}

func (s *farStore) Probe(ctx context.Context, nodes []core.NodeID, into []store.Occupancy) error {
	s.probed.Add(int64(len(nodes)))
	time.Sleep(10 * time.Millisecond)
	return s.Store.Probe(ctx, nodes, into)
}

// TestACrowdAtAFullFleet: everybody is refused, and the store is not asked about every node by each of them. Or a fleet that
// is full for a moment would cost the store more than one that is not, and stay full.
func TestACrowdAtAFullFleet(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		const size, crowd = 20, 200
		for i := range size {
			w.node(fmt.Sprintf("n%d", i), 1)
			w.dispatch(func(s *core.Spec) { s.Request = core.RequestID(fmt.Sprint("first", i)) })
		}
		far := &farStore{Store: w.store}
		d := dispatch.New(dispatch.Config{
			Instance: "i-other", DecideWithin: 400 * time.Millisecond, ACKTimeout: 2 * time.Second,
			AttemptTimeout: timing.Attempt, JobTimeout: timing.Job, MaxRetry: 2,
		}, far, w.fleet, w.pick, w.sent, nil, w.m, w.log)
		defer d.Close()
		var all sync.WaitGroup
		var refused atomic.Int64
		for i := range crowd {
			all.Go(func() {
				_, err := d.Dispatch(t.Context(), dispatch.Request{Spec: spec(func(s *core.Spec) { s.Request = core.RequestID(fmt.Sprint("more", i)) })})
				if err != nil {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		if refused.Load() != crowd {
			t.Errorf("%d of %d were refused by a fleet without a free slot", refused.Load(), crowd)
		}
		if most := int64(3 * size); far.probed.Load() > most {
			t.Errorf("the store was asked %d times how full a node is, want at most %d", far.probed.Load(), most)
		}
	})
}
