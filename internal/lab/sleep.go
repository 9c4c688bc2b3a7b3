package lab

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
)

// preciseSleep is the last part of a sleep, which sleepPrecisely does. A timer of the runtime may be late by a millisecond,
// which is as much as a dispatch takes.
const preciseSleep = 2 * time.Millisecond

// sleepUntil sleeps until a time. It returns false if the context ended first.
func sleepUntil(ctx context.Context, t time.Time) bool {
	if d := time.Until(t) - preciseSleep; d > 0 && !run.Sleep(ctx, d) {
		return false
	}
	for d := time.Until(t); d > 0 && ctx.Err() == nil; d = time.Until(t) {
		sleepPrecisely(ctx, d)
	}
	return ctx.Err() == nil
}
