package pools_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// TestStartOnAnEmptiedStore: instances that start when the store was just emptied do not end or replace the pools of those that run, whatever
// their files say, and have them as well at once.
func TestStartOnAnEmptiedStore(t *testing.T) {
	for name, c := range map[string]struct {
		file       []core.PoolID
		generation int64
	}{
		"without pools":      {nil, 1},
		"with the same":      {[]core.PoolID{"x"}, 1},
		"with other pools":   {[]core.PoolID{"y"}, 2},
		"with further pools": {[]core.PoolID{"x", "y"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := newFaulty()
				a, b := start(t, shared, "x"), start(t, shared, "x")
				synctest.Wait()
				shared.empty()
				c1 := start(t, shared, c.file...)
				synctest.Wait()
				want(t, c.generation, []core.PoolID{"x"}, a, b, c1)
				if differs := len(c.file) != 1 || c.file[0] != "x"; c1.State().FileDiffers != differs {
					t.Errorf("the file differs: %t, want %t", !differs, differs)
				}
				time.Sleep(maxPoll)
				want(t, c.generation, []core.PoolID{"x"}, a, b, c1)
			})
		})
	}
}

// TestReplacedPoolsStayReplaced: an instance that starts with an old file does not undo a later division, also if the store was emptied since.
func TestReplacedPoolsStayReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newFaulty()
		a := start(t, shared, "x")
		a.Publish(t.Context(), file("x", "y"))
		want(t, 2, []core.PoolID{"x", "y"}, a)
		shared.empty()
		time.Sleep(maxPoll)
		old := start(t, shared, "x")
		synctest.Wait()
		want(t, 2, []core.PoolID{"x", "y"}, a, old)
		shared.empty()
		old.Publish(t.Context(), file("z")) // before anybody has restored them
		synctest.Wait()
		want(t, 3, []core.PoolID{"z"}, a, old)
		for _, replaced := range [][]core.PoolID{{"x"}, {"x", "y"}} {
			i := start(t, shared, replaced...)
			synctest.Wait()
			want(t, 3, []core.PoolID{"z"}, a, old, i)
		}
	})
}

// TestDivergedStore: after a failover the store has another division of the generation that instances have. All agree again, on the one that
// was there first.
func TestDivergedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newFaulty()
		a, b := start(t, shared, "x"), start(t, shared, "x")
		synctest.Wait()
		shared.set(&shared.isSilent, true)
		shared.empty()
		c := start(t, shared, "y")
		want(t, 1, []core.PoolID{"y"}, c)
		time.Sleep(2 * maxPoll)
		want(t, 2, []core.PoolID{"x"}, a, b, c)
	})
}

// TestNoPoolsAreNotPublished: instances without pools leave the store without a setting, and the first pools have the generation 1.
func TestNoPoolsAreNotPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newFaulty()
		a, b := start(t, shared), start(t, shared)
		synctest.Wait()
		want(t, 0, []core.PoolID{}, a, b)
		if a.State().FileDiffers {
			t.Error("a file without pools differs from none")
		}
		c := start(t, shared, "x")
		synctest.Wait()
		want(t, 1, []core.PoolID{"x"}, a, b, c)
		if !a.State().FileDiffers {
			t.Error("a file without pools does not differ from some")
		}
	})
}
