package lab

import (
	"math/rand/v2"
	"time"
)

// request is one request of the load.
type request struct {
	number   int
	due      time.Time
	measured bool // it is due after the warm-up
}

// arrivals generates when requests are due, from the start of the load.
type arrivals struct {
	rate  float64
	even  bool
	count int
	last  float64 // seconds
}

// next returns when the next request is due.
func (a *arrivals) next() time.Duration {
	switch {
	case a.even:
		a.last = float64(a.count) / a.rate // not a sum, whose rounding errors would add up
	default:
		a.last += rand.ExpFloat64() / a.rate
	}
	a.count++
	return time.Duration(a.last * float64(time.Second))
}
