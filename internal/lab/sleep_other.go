//go:build !linux

package lab

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
)

// sleepPrecisely sleeps for a short time, as precisely as a timer of the runtime does.
func sleepPrecisely(ctx context.Context, d time.Duration) { run.Sleep(ctx, d) }
