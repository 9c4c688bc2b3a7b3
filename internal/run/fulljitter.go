package run

import (
	"math/rand/v2"
	"time"
)

// FullJitter returns how long to wait before retry number n, from 0: a random duration up to a bound that doubles from
// first to limit. Clients that lost the same server at once thus do not return at once.
func FullJitter(n int, first, limit time.Duration) time.Duration {
	bound := limit
	if n < 16 {
		bound = min(bound, first<<max(n, 0))
	}
	return rand.N(bound + 1)
}
