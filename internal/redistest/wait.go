package redistest

import (
	"context"
	"testing"
	"time"
)

// pollEvery is how often a condition of another process is looked at: it has no way to tell us.
const pollEvery = 10 * time.Millisecond

// eventually looks at a condition until it holds. The condition says what is still missing.
func eventually(tb testing.TB, timeout time.Duration, missing func() error) {
	tb.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	again := time.NewTicker(pollEvery)
	defer again.Stop()
	for {
		err := missing()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			tb.Fatalf("not within %v: %v", timeout, err)
		case <-again.C:
		}
	}
}

// lifetime is the test's context without its end: that comes before the clean-ups of the test, which may still
// want to talk to the server.
func lifetime(tb testing.TB) context.Context { return context.WithoutCancel(tb.Context()) }
