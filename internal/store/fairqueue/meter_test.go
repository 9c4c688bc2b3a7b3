package fairqueue

import (
	"fmt"
	"testing"
)

// TestMeterOfFastGrants: the clock has milliseconds, so of 10 grants in a millisecond 9 have an interval of zero. The mean is that of the time, also if it
// is approached from another one.
func TestMeterOfFastGrants(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{ClassGrants, FlowGrants} {
		for _, before := range []int64{0, 1, 50} { // milliseconds between the grants before
			var m meter
			now := int64(1_000_000)
			m.begin(now)
			for range limit {
				now += before
				m.grant(now, limit)
			}
			sum := int64(0)
			for range 1000 { // milliseconds
				now++
				sum = 0
				for range 10 {
					m.grant(now, limit)
					sum += m.US
				}
			}
			wantAbout(t, fmt.Sprintf("mean of %d grants after some every %d ms, in µs", limit, before), int(sum/10), 100, 5)
		}
	}
}
