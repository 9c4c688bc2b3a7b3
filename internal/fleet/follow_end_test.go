package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Run returns as soon as its context ends, wherever it is, and leaves nothing running.
func TestRunReturnsWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	const forEver = 1 << 20
	for _, c := range []struct {
		name  string
		scene func(*followerHarness)
		after time.Duration
	}{
		{"at once", func(*followerHarness) {}, 0},
		{"between two polls", func(*followerHarness) {}, pollInterval / 2},
		{"after a long life", func(*followerHarness) {}, 5 * time.Minute},
		{"while the stream is broken", func(f *followerHarness) { f.store.failing["Watch"] = forEver }, time.Minute},
		{"while nobody says who is alive", func(f *followerHarness) { f.store.failing["Sightings"] = forEver }, time.Minute},
		{"while comparisons fail", func(f *followerHarness) { f.store.failing["Nodes"] = forEver }, time.Minute},
		{"while a silent node's jobs cannot be moved", func(f *followerHarness) {
			f.silent = func(core.NodeID) error { return errAway }
		}, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFollowerHarness(t)
				f.register("a")
				c.scene(f)
				f.run()
				time.Sleep(c.after)
				synctest.Wait()
				select {
				case <-f.done:
					t.Fatal("Run returned before its context ended")
				default:
				}
				ended := time.Now()
				f.stop()
				<-f.done
				if took := time.Since(ended); took != 0 {
					t.Errorf("took %v to end", took)
				}
			})
		})
	}
}
