// Package pause waits, as long as somebody still wants to.
package pause

import (
	"context"
	"math/rand/v2"
	"time"
)

// For waits and reports false when the context ended first.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// About waits for d, give or take the given part of it, so that those who wait at the same time do not act in
// step. It reports false when the context ended first.
func About(ctx context.Context, d time.Duration, part float64) bool {
	return For(ctx, Near(d, part))
}

// Near is d, give or take the given part of it.
func Near(d time.Duration, part float64) time.Duration {
	return d + time.Duration((2*rand.Float64()-1)*part*float64(d))
}

// Persist asks until it is answered, after pauses that grow from the first to the longest, each give or take half of it.
// It reports false when the context ended first.
func Persist(ctx context.Context, first, longest time.Duration, ask func() error) bool {
	for wait := first; ; wait = min(2*wait, longest) {
		if ask() == nil {
			return true
		}
		if !About(ctx, wait, 0.5) {
			return false
		}
	}
}
