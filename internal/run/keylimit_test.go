package run

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// TestLimitMatchesItsModel compares a limit with a list of all uses.
func TestLimitMatchesItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 4).Draw(rt, "limit")
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) limitStep {
			return limitStep{
				key: rapid.IntRange(0, 3).Draw(rt, "key"), wait: time.Duration(rapid.IntRange(0, 4).Draw(rt, "wait")) * 15 * time.Second,
				look: rapid.Bool().Draw(rt, "look"),
			}
		}), 1, 60).Draw(rt, "steps")
		var failure string
		synctest.Test(t, func(*testing.T) { failure = checkLimit(limit, steps) })
		if failure != "" {
			rt.Fatal(failure)
		}
	})
}

type limitStep struct {
	key  int
	wait time.Duration
	look bool // only ask how long the window lasts
}

// checkLimit returns how the limit differs from the model; empty: it does not.
func checkLimit(limit int, steps []limitStep) string {
	const length = time.Minute
	l := NewKeyLimit[int](limit, length)
	opened, count := make(map[int]time.Time), make(map[int]int)
	for _, s := range steps {
		time.Sleep(s.wait)
		now := time.Now()
		at, open := opened[s.key]
		open = open && now.Before(at.Add(length))
		if s.look {
			want := time.Duration(0)
			if open && count[s.key] >= limit {
				want = at.Add(length).Sub(now)
			}
			if l.Remaining(s.key) != want {
				return "the remaining time differs from the model"
			}
			continue
		}
		if !open {
			opened[s.key], count[s.key] = now, 0
		}
		count[s.key]++
		if l.Allow(s.key) != (count[s.key] <= limit) {
			return "a use differs from the model"
		}
	}
	return ""
}
