package run_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/run"
)

// TestGroupClose: Close ends the context of what runs, waits for all of it, and later calls are refused. Under the race detector it
// also shows that Go and Close may be called at the same time.
func TestGroupClose(t *testing.T) {
	t.Parallel()
	for range 200 {
		g := run.NewGroup()
		var started, ended atomic.Int64
		callers := make(chan int64)
		go func() {
			var accepted int64
			for g.Go(func(ctx context.Context) {
				started.Add(1)
				<-ctx.Done()
				ended.Add(1)
			}) {
				accepted++
			}
			callers <- accepted
		}()
		g.Close()
		left := started.Load() - ended.Load()
		if accepted := <-callers; left != 0 || accepted != ended.Load() {
			t.Fatalf("after Close: %d still run, %d of %d accepted functions ended", left, ended.Load(), accepted)
		}
	}
}
