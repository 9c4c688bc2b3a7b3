package run

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is an exponential backoff: its waits double from Min to Max, each with a jitter of one half. A
// Backoff must not be used by two goroutines at once.
type Backoff struct {
	Min, Max time.Duration
	next     time.Duration
}

// Next is how long the next Wait sleeps, before its jitter.
func (b *Backoff) Next() time.Duration { return max(b.next, b.Min) }

// Wait sleeps before the next try. It returns false if the context ended first.
func (b *Backoff) Wait(ctx context.Context) bool {
	wait := b.Next()
	b.next = min(2*wait, b.Max)
	return SleepJitter(ctx, wait, 0.5)
}

// Reset starts again from Min, after a try that succeeded.
func (b *Backoff) Reset() { b.next = 0 }

// Retry calls try until it returns nil. It returns false if the context ended first.
func (b Backoff) Retry(ctx context.Context, try func() error) bool {
	for {
		if try() == nil {
			return true
		}
		if !b.Wait(ctx) {
			return false
		}
	}
}

// Sleep sleeps for d. It returns false if the context ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// SleepJitter sleeps for d with a jitter, so that callers that start together do not continue together. It returns false if
// the context ended first.
func SleepJitter(ctx context.Context, d time.Duration, jitter float64) bool {
	return Sleep(ctx, Jitter(d, jitter))
}

// Jitter returns a random duration between d-jitter*d and d+jitter*d.
func Jitter(d time.Duration, jitter float64) time.Duration {
	return d + time.Duration((2*rand.Float64()-1)*jitter*float64(d))
}
