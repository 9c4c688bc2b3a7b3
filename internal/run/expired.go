package run

import (
	"context"
	"time"
)

// Expired reports whether a context is past its deadline, even if its timer has not fired yet: after a process was suspended, its timers
// fire concurrently with everything else.
func Expired(ctx context.Context) bool {
	ends, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(ends)
}
