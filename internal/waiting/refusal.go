package waiting

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/wire"
)

// minRetryAfter is the lowest hint at when a refused request may be repeated.
const minRetryAfter = 100 * time.Millisecond

// Full is the refusal of a request that has no slot because others wait for the same.
func Full() *wire.Error {
	e := wire.Errorf(wire.AllCandidatesFullOrFailed, "every node that could take the job is full, and other requests wait for them")
	e.Reasons = map[string]int{string(core.ReasonFull): 1}
	return e.RetryIn(time.Second)
}

// refusalOf returns why a request may not wait; nil: it may.
func refusalOf(r *fairqueue.EnqueueResult, until time.Time) *wire.Error {
	switch r.Verdict {
	case fairqueue.Expired:
		return Full()
	case fairqueue.CannotBeMet:
		estimate := time.Duration(r.EstimateMS) * time.Millisecond
		e := wire.Errorf(wire.CannotBeMet, "no slot will be free in time: the wait would be about %s; wait longer, or try again later",
			estimate.Round(10*time.Millisecond))
		return e.RetryIn(max(estimate-time.Until(until), minRetryAfter))
	case fairqueue.QueueFull:
		return wire.Errorf(wire.QueueFull,
			"too many requests wait for a slot, and your tenant has its part of them: try again later").RetryIn(time.Second)
	}
	return nil
}
