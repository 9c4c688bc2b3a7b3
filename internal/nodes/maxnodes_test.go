package nodes_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestMaxNodesWhileRegistering: nodes that are registering count as registered, so that a key does not register more than it may while
// the store is slow. After the store has failed the key may register as many as before.
func TestMaxNodesWhileRegistering(t *testing.T) {
	limited := func(p *core.Change) { p.Key = "two" }
	run(t, func(t *testing.T, h *harness) {
		for _, down := range []bool{true, false} {
			h.store.down.Store(down)
			wait := make(chan struct{})
			h.store.slow.Store(&wait)
			var accepted, limitedCount, failed atomic.Int32
			for i := range 10 {
				go func() {
					_, err := h.registry.Register(t.Context(), core.NodeID(fmt.Sprint("two-", i)), changeOf(1, limited), nodes.Caller{MaxNodes: 2}, store.Activity{})
					var e *wire.Error
					switch {
					case err == nil:
						accepted.Add(1)
					case errors.As(err, &e) && e.Code == wire.RateLimited:
						limitedCount.Add(1)
					default:
						failed.Add(1)
					}
				}()
			}
			synctest.Wait()
			close(wait)
			synctest.Wait()
			want := [3]int32{2, 8, 0}
			if down {
				want = [3]int32{0, 8, 2}
			}
			if got := [3]int32{accepted.Load(), limitedCount.Load(), failed.Load()}; got != want {
				t.Errorf("store down %v: accepted, limited, failed: %v, want %v", down, got, want)
			}
		}
	})
}
