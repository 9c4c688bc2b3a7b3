package waiting

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/internal/run"
)

// poisson sends requests at random times, at a rate per second, for a while, and returns how many were refused, how many there were, and how long those
// took that were placed.
func (c *cluster) poisson(rate float64, lasts, wait time.Duration) (refused, sent int, took []time.Duration) {
	c.t.Helper()
	ctx, stop := context.WithTimeout(c.t.Context(), lasts)
	defer stop()
	var mu sync.Mutex
	var running sync.WaitGroup
	next := time.Now()
	for {
		next = next.Add(time.Duration(rand.ExpFloat64() / rate * float64(time.Second)))
		if !run.Sleep(ctx, time.Until(next)) {
			break
		}
		instance := sent % len(c.instances)
		sent++
		running.Go(func() {
			r, err := c.dispatch(c.t.Context(), instance, other, wait)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				c.t.Error(err)
			case r.refusal != "":
				refused++
			default:
				took = append(took, r.took)
			}
		})
	}
	running.Wait()
	return refused, sent, took
}

// TestRefusalsAtHighLoad compares the refusals at 85 % load without waiting with those with waiting.
func TestRefusalsAtHighLoad(t *testing.T) {
	besideOthers(t)
	c := startCluster(t, 8, [2]int{1, 1}, jobTime)
	rate := 0.85 * float64(c.slots) / jobTime.Seconds()
	refused, sent, _ := c.poisson(rate, duration(), 0)
	t.Logf("without waiting: %d of %d refused (%.2f %%)", refused, sent, 100*float64(refused)/float64(sent))
	waitRefused, waitSent, took := c.poisson(rate, duration(), time.Second)
	t.Logf("waiting at most 1 s: %d of %d refused (%.2f %%), p50 %v, p99 %v", waitRefused, waitSent, 100*float64(waitRefused)/float64(waitSent),
		stats.Median(took).Round(time.Millisecond), stats.Percentile(took, 0.99).Round(time.Millisecond))
	if judged() && 10*waitRefused*sent > refused*waitSent {
		t.Errorf("waiting spares less than nine of ten refusals")
	}
}
