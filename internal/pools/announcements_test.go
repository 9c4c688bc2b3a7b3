package pools_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestAnnouncedPools: pools that are published are adopted at once by all instances, which otherwise read the setting rarely. If the
// announcement is lost they are adopted with the next poll.
func TestAnnouncedPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newFaulty()
		a, b := start(t, shared, "x"), start(t, shared, "x")
		synctest.Wait()
		before := shared.loaded()
		const minutes = 10
		time.Sleep(minutes * time.Minute)
		if n := shared.loaded() - before; n > 2*minutes*15 || n < 2*minutes*10 {
			t.Errorf("two instances have read the setting %d times in %d minutes, want 10 to 15 times a minute each", n, minutes)
		}
		a.Publish(t.Context(), file("y"))
		synctest.Wait()
		want(t, 2, []core.PoolID{"y"}, a, b)

		shared.set(&shared.isSilent, true)
		a.Publish(t.Context(), file("z"))
		time.Sleep(maxPoll)
		want(t, 3, []core.PoolID{"z"}, a, b)
		if n := a.passed.Load() + b.passed.Load(); n > 0 {
			t.Errorf("%d announcements of settings reached those that watch nodes", n)
		}
	})
}

// TestPoolsWhileNodesChange: while many changes of nodes come, behind which an announcement may be late, the setting is read so often that
// pools are adopted within a second. The changes are passed on.
func TestPoolsWhileNodesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newFaulty()
		a, b := start(t, shared, "x"), start(t, shared, "x")
		synctest.Wait()
		shared.set(&shared.isSilent, true)
		const changes = 100
		for i := range changes {
			n := core.Node{ID: core.NodeID(fmt.Sprint("n", i)), Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 1}}
			if _, err := shared.watched.Register(t.Context(), store.RegisterParams{Node: n, Load: core.UnknownLoad}); err != nil {
				t.Fatal(err)
			}
			if i == changes/2 {
				a.Publish(t.Context(), file("y"))
			}
			time.Sleep(20 * time.Millisecond) // two seconds in all
		}
		want(t, 2, []core.PoolID{"y"}, a, b)
		if a.passed.Load() != changes || b.passed.Load() != changes {
			t.Errorf("%d and %d changes of nodes were passed on, want %d", a.passed.Load(), b.passed.Load(), changes)
		}
	})
}
