package drill

import (
	"time"

	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
	"github.com/lingua-scheduler/lingua/test/stalltest"
)

// longStall is the duration from which on a stall of the machine has the effects of an outage: calls to Redis exceed their limits.
const longStall = 400 * time.Millisecond

// stall is an interval in which the machine ran no process of the drill.
type stall struct{ from, to int64 } // see journal.Now

// addStalls adds the stalls of the machine, which the drill did not cause. A long one is a fault.
func (e *evidence) addStalls(all []stalltest.Stall) {
	for _, s := range all {
		from, to := journal.At(s.From), journal.At(s.To)
		e.stalls = append(e.stalls, stall{from, to})
		if s.Duration() >= longStall {
			f := fault{name: "stall", recoveryLimit: 15 * time.Second, allowedCodes: storeDownCodes}
			e.injections = append(e.injections, &injection{fault: f, target: "this machine", from: from, to: to})
		}
	}
}

// stalledBetween returns for how long the machine was stalled between two times, in nanoseconds.
func (e *evidence) stalledBetween(from, to int64) (sum int64) {
	for _, s := range e.stalls {
		sum += max(0, min(to, s.to)-max(from, s.from))
	}
	return sum
}
