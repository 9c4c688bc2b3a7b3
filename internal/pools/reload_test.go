package pools_test

import (
	"testing"
	"testing/synctest"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/pools"
)

// TestEffectOfAReload: a reload publishes what has changed in the file of the instance, and what has not only on demand.
func TestEffectOfAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newFaulty()
		a, without := start(t, shared, "x"), start(t, shared)
		old := start(t, shared, "x")
		a.Publish(t.Context(), file("x", "y"))
		synctest.Wait()
		for name, c := range map[string]struct {
			instance *instance
			division *core.Pools
			demanded bool
			want     pools.Effect
		}{
			"the file in force":                 {a, file("x", "y"), false, pools.InForce},
			"the file in force, on demand":      {a, file("x", "y"), true, pools.InForce},
			"a changed file":                    {a, file("z"), false, pools.Published},
			"an earlier file":                   {a, file("x"), false, pools.Published},
			"a file whose pools were removed":   {a, file(), false, pools.Published},
			"without pools":                     {without, file(), false, pools.Withheld},
			"without pools, on demand":          {without, file(), true, pools.Published},
			"the first pools":                   {without, file("z"), false, pools.Published},
			"brought up to date":                {without, file("x", "y"), false, pools.InForce},
			"an old file":                       {old, file("x"), false, pools.Withheld},
			"an old file, on demand":            {old, file("x"), true, pools.Published},
			"an old file that is up to date":    {old, file("x", "y"), false, pools.InForce},
			"an old file that has lost its own": {old, file(), false, pools.Published},
		} {
			if got, err := c.instance.Compare(t.Context(), c.division, c.demanded); err != nil || got != c.want {
				t.Errorf("%s: %d, %v, want %d", name, got, err, c.want)
			}
		}
		want(t, 2, []core.PoolID{"x", "y"}, a, without, old) // asking has changed nothing
	})
}

// TestFileBroughtUpToDate: a file that is loaded again and has the pools in force differs no longer, although nothing is published.
func TestFileBroughtUpToDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newFaulty()
		a, b := start(t, shared, "x"), start(t, shared, "x")
		a.Publish(t.Context(), file("y"))
		synctest.Wait()
		if a.State().FileDiffers || !b.State().FileDiffers {
			t.Errorf("the files differ: %t, %t, want that of the second", a.State().FileDiffers, b.State().FileDiffers)
		}
		b.SetFile(file("y"))
		if b.State().FileDiffers {
			t.Error("the file that was brought up to date differs")
		}
		b.SetFile(file("z"))
		if !b.State().FileDiffers {
			t.Error("another file does not differ")
		}
		want(t, 2, []core.PoolID{"y"}, a, b)
	})
}

// TestReloadWithoutStore: whether unchanged pools are in force is known without the store, so that other parts can be reloaded.
func TestReloadWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newFaulty()
		a := start(t, shared, "x")
		shared.set(&shared.isAway, true)
		if got, err := a.Compare(t.Context(), file("x"), false); err != nil || got != pools.InForce {
			t.Errorf("%d, %v", got, err)
		}
		if _, err := a.Compare(t.Context(), file("x"), true); err == nil {
			t.Error("it can be published without the store")
		}
	})
}
