package guards

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/bench/inprocess"
	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
)

var (
	judge  = flag.Bool("judge", false, "compare the latencies with their limits")
	rounds = flag.Int("rounds", 1, "how many windows of each kind are measured")
	window = flag.Duration("window", 300*time.Millisecond, "how long a window is")
	rate   = flag.Int("rate", 500, "dispatches a second")
	shared = flag.Bool("redis", false, "use Redis instead of the memory store")
)

const (
	fleetNodes = 100
	nodeSlots  = 8
	// tolerance is how much higher the 99th percentile beside other work may be, unless calm windows differ more among themselves.
	tolerance = 1.10
)

// serve starts a scheduler with nodes, over Redis if the flag says so.
func serve(t *testing.T, changes ...func(*config.Config)) (s *scheduler.Scheduler, url string) {
	t.Helper()
	if *shared {
		redis := redistest.Start(t)
		changes = append(changes, func(c *config.Config) { c.Store = redis.URL() })
	}
	return inprocess.Serve(t, fleetNodes, nodeSlots, changes...)
}

// condition is what happens beside dispatch in one kind of windows.
type condition struct {
	name string
	// begin starts it and returns what stops it; nil: nothing happens.
	begin func() (end func())
}

// measured has the 99th percentiles of the windows of one condition, in microseconds.
type measured struct {
	name string
	p99  []float64
}

// measure measures dispatch under each condition in turn, and fails the test if a dispatch fails. The order changes from round to round.
func measure(t *testing.T, s *scheduler.Scheduler, conditions ...condition) []measured {
	t.Helper()
	results := make([]measured, len(conditions))
	inprocess.DispatchAtRate(t, s, *rate, *window) // warm-up
	for round := range *rounds {
		for k := range conditions {
			i := (k + round) % len(conditions)
			c := &conditions[i]
			end := func() {}
			if c.begin != nil {
				end = c.begin()
			}
			w := inprocess.DispatchAtRate(t, s, *rate, *window)
			end()
			if w.Failed > 0 {
				t.Errorf("%s: %d of %d dispatches failed: %v", c.name, w.Failed, w.Latencies.TotalCount(), w.Err)
			}
			results[i].name = c.name
			results[i].p99 = append(results[i].p99, float64(w.Latencies.ValueAtQuantile(99)))
		}
	}
	for _, r := range results {
		t.Log(r)
	}
	return results
}

// String shows the windows.
func (m measured) String() string {
	windows := make([]string, len(m.p99))
	for i, v := range m.p99 {
		windows[i] = fmt.Sprintf("%.2f", v/1000)
	}
	return fmt.Sprintf("p99 %-32s median %.2f ms; windows %s", m.name, stats.Median(m.p99)/1000, strings.Join(windows, " "))
}

// compare checks that the 99th percentile beside other work is within the tolerance of that of calm windows, or within their spread: not
// higher than nine tenths of the calm windows reach.
func compare(t *testing.T, calm, beside measured) {
	t.Helper()
	base, got := stats.Median(calm.p99), stats.Median(beside.p99)
	spread := stats.Percentile(calm.p99, 0.9)
	t.Logf("%s: %.3f of %s; calm windows reach from %.3f to %.3f of their median, their 90th percentile is %.3f",
		beside.name, got/base, calm.name, slices.Min(calm.p99)/base, slices.Max(calm.p99)/base, spread/base)
	if *judge && got > max(tolerance*base, spread) {
		t.Errorf("%s: the 99th percentile is %.3f of that of %s", beside.name, got/base, calm.name)
	}
}
