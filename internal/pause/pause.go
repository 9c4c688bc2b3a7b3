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
