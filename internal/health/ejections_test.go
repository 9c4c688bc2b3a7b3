package health

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestEjectionsOutliveTheRecord: a node that leaves and registers again is ejected for longer when it fails again, within the time after which
// its ejections would be forgotten anyway.
func TestEjectionsOutliveTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudged(t, 8, fiveNodes(), enZH)
		again := func(want int) {
			t.Helper()
			if _, err := j.store.Remove(t.Context(), store.RemoveParams{Node: "a"}); err != nil {
				t.Fatal(err)
			}
			j.Fleet.Remove("a")
			j.judge(Report{})
			j.register("a", 8, zhEN)
			if a := j.Fleet.Node("a").Declared().Admission; a != (core.Admission{}) {
				t.Fatalf("a new record has the admission %+v", a)
			}
			j.judge(seenOf("a", 20, 20))
			a := j.Fleet.Node("a").Declared().Admission
			if lasts := a.Until.Sub(a.Since); !a.Ejected() || a.Times != want || lasts < ejectFor<<(want-1) {
				t.Errorf("ejected %v, %d times, for %v; want %d times", a.Ejected(), a.Times, lasts, want)
			}
		}
		again(1)
		again(2)
		again(3)
		j.Fleet.Remove("a")
		time.Sleep(forgetAfter)
		again(1)
		j.Lift(t.Context(), 2, Report{}, nil)
		if len(j.past) != 0 {
			t.Errorf("after all limits were lifted, %v is remembered", j.past)
		}
	})
}

// TestRememberedEjectionsAreBounded: of many nodes that were ejected and have left, the latest are remembered.
func TestRememberedEjectionsAreBounded(t *testing.T) {
	t.Parallel()
	p, now := make(pastEjections), time.Now()
	for i := range 3 * maxRemembered {
		p.remember(core.NodeID(fmt.Sprint("n", i)), 1, now.Add(time.Duration(i)*time.Millisecond))
	}
	_, first := p[core.NodeID(fmt.Sprint("n", 2*maxRemembered))]
	if len(p) != maxRemembered || !first {
		t.Errorf("%d nodes are remembered, the first of the last %d: %v", len(p), maxRemembered, first)
	}
}
