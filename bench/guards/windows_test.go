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
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/test/redistest"
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
	// besideOurs is how much higher the 99th percentile may be beside other work of the scheduler, unless calm windows differ more among
	// themselves, and besideReads beside reads that people ask for.
	besideOurs, besideReads = 1.10, 1.20
	// maxStolen is the share of the processors' time that the hypervisor may take in a window. Rounds with more are measured again, at most
	// as often as maxRepeated times the number of rounds: they say nothing about the scheduler.
	maxStolen   = 0.01
	maxRepeated = 4
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
	for i := range conditions {
		results[i].name = conditions[i].name
	}
	inprocess.DispatchAtRate(t, s, *rate, *window) // warm-up
	repeated := 0
	for round := 0; round < *rounds; round++ {
		p99, stolen := measureRound(t, s, conditions, round)
		if *judge && stolen > maxStolen && repeated < maxRepeated**rounds {
			repeated++
			round--
			continue
		}
		for i := range results {
			results[i].p99 = append(results[i].p99, p99[i])
		}
	}
	t.Logf("%d rounds; %d others are not counted because more than %.0f %% of the processors' time was stolen", *rounds, repeated, 100*maxStolen)
	for _, r := range results {
		t.Log(r)
	}
	return results
}

// measureRound measures one window of each condition. It returns the highest share of the processors' time that was stolen in a window.
func measureRound(t *testing.T, s *scheduler.Scheduler, conditions []condition, round int) (p99 []float64, stolen float64) {
	t.Helper()
	p99 = make([]float64, len(conditions))
	for k := range conditions {
		i := (k + round) % len(conditions)
		c := &conditions[i]
		end := func() {}
		if c.begin != nil {
			end = c.begin()
		}
		began := readProcessorTime()
		w := inprocess.DispatchAtRate(t, s, *rate, *window)
		share := stolenSince(began)
		end()
		stolen = max(stolen, share)
		if w.Failed > 0 && share <= maxStolen {
			t.Errorf("%s: %d of %d dispatches failed: %v", c.name, w.Failed, w.Latencies.TotalCount(), w.Err)
		}
		p99[i] = float64(w.Latencies.ValueAtQuantile(99))
	}
	return p99, stolen
}

// String shows the windows.
func (m measured) String() string {
	windows := make([]string, len(m.p99))
	for i, v := range m.p99 {
		windows[i] = fmt.Sprintf("%.2f", v/1000)
	}
	return fmt.Sprintf("p99 %-32s median %.2f ms; windows %s", m.name, stats.Median(m.p99)/1000, strings.Join(windows, " "))
}

// compare checks that the 99th percentile beside other work is within a tolerance of that of the windows that it is compared with, or
// within their spread: not higher than all of them but the highest.
func compare(t *testing.T, base, beside measured, tolerance float64) {
	t.Helper()
	median, got := stats.Median(base.p99), stats.Median(beside.p99)
	spread := spreadOf(base.p99)
	t.Logf("%s: %.3f of %s, whose windows reach from %.3f to %.3f of their median, without the highest of them to %.3f",
		beside.name, got/median, base.name, slices.Min(base.p99)/median, slices.Max(base.p99)/median, spread/median)
	if *judge && got > max(tolerance*median, spread) {
		t.Errorf("%s: the 99th percentile is %.3f of that of %s", beside.name, got/median, base.name)
	}
}

// spreadOf returns how far windows reach, without the highest of them.
func spreadOf(p99 []float64) float64 {
	sorted := slices.Sorted(slices.Values(p99))
	return sorted[max(0, len(sorted)-2)]
}

// compareWithCalm prints how the 99th percentile compares with that of calm windows.
func compareWithCalm(t *testing.T, calm measured, others ...measured) {
	t.Helper()
	for _, o := range others {
		t.Logf("%s: %.3f of calm", o.name, stats.Median(o.p99)/stats.Median(calm.p99))
	}
}
