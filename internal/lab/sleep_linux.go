package lab

import (
	"context"
	"syscall"
	"time"
)

// sleepPrecisely sleeps for a short time, which the end of the context does not shorten. It may return early if a signal
// arrives.
func sleepPrecisely(_ context.Context, d time.Duration) {
	t := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&t, nil)
}
