package cluster

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

const hopTurns = 15

// BenchmarkHop measures utterances whose session is on the node's instance and on another one, in turn: one session that
// sends the next utterance at once, sixteen with pauses, and sixteen without, which is all that the machine can do.
func BenchmarkHop(b *testing.B) {
	for b.Loop() {
		rows := [][]string{{"sessions", "pause", "instances", "", "to the node", "with its audio", "from the node", "total", "utterances/s"}}
		added, _ := measureHop(b, scenario{sessions: 1, utterances: 60}, &rows)
		b.ReportMetric(milliseconds(added), "ms-added")
		added, _ = measureHop(b, scenario{sessions: 16, utterances: 5, pause: 60 * time.Millisecond}, &rows)
		b.ReportMetric(milliseconds(added), "ms-added-beside-others")
		_, slower := measureHop(b, scenario{sessions: 16, utterances: 20}, &rows)
		b.ReportMetric(slower, "of-the-rate-of-one-instance")
		printTable("Latency of an utterance whose session is on the instance of the node, or on another", rows)
	}
	b.ReportMetric(0, "ns/op")
}

// scenario is how sessions send utterances.
type scenario struct {
	sessions   int
	utterances int // of each session in a turn
	pause      time.Duration
}

// legs are the parts of the way of an utterance.
var legs = []func(latency) time.Duration{
	func(t latency) time.Duration { return t.toNode }, func(t latency) time.Duration { return t.withAudio },
	func(t latency) time.Duration { return t.fromNode }, func(t latency) time.Duration { return t.total },
}

// measureHop measures a scenario. It returns what the second instance adds to the median of the whole way, and the rate
// with it as a share of the rate without.
func measureHop(b *testing.B, sc scenario, rows *[][]string) (extra time.Duration, rate float64) {
	instances := startInstances(b, redistest.Start(b).URL(), 2)
	fleet := startNodes(b, instances, instances[:1], sc.sessions, 2)
	sessions := [2][]*testSession{startSessions(b, instances[0], sc.sessions), startSessions(b, instances[1], sc.sessions)}
	for _, s := range sessions {
		runUtterances(b, fleet, s, sc.utterances, 0) // warm-up
	}
	var all [2][]latency
	var rates [2][]float64
	var ratios []float64
	added := make([][]time.Duration, len(legs))
	for range hopTurns {
		var turn [2][]latency
		for n, s := range sessions {
			began := time.Now()
			turn[n] = runUtterances(b, fleet, s, sc.utterances, sc.pause)
			rates[n] = append(rates[n], float64(len(turn[n]))/time.Since(began).Seconds())
			all[n] = append(all[n], turn[n]...)
		}
		ratios = append(ratios, rates[1][len(rates[1])-1]/rates[0][len(rates[0])-1])
		for l, leg := range legs {
			added[l] = append(added[l], stats.Median(latencies(turn[1], leg))-stats.Median(latencies(turn[0], leg)))
		}
	}
	row := func(count, what, rate string, of func(l int) time.Duration) {
		cells := []string{strconv.Itoa(sc.sessions), sc.pause.String(), count, what}
		for l := range legs {
			cells = append(cells, formatMS(of(l)))
		}
		*rows = append(*rows, append(cells, rate))
	}
	for n, name := range []string{"one", "two"} {
		row(name, "p50", fmt.Sprintf("%.0f", stats.Median(rates[n])), func(l int) time.Duration { return stats.Median(latencies(all[n], legs[l])) })
		row(name, "p99", "", func(l int) time.Duration { return stats.Percentile(latencies(all[n], legs[l]), 0.99) })
	}
	row("added", "p50", fmt.Sprintf("%.2f of one", stats.Median(ratios)), func(l int) time.Duration { return stats.Median(added[l]) })
	return stats.Median(added[len(legs)-1]), stats.Median(ratios)
}

// latencies returns one part of many latencies.
func latencies(all []latency, of func(latency) time.Duration) []time.Duration {
	list := make([]time.Duration, len(all))
	for i, t := range all {
		list[i] = of(t)
	}
	return list
}

// TestResultsCrossInstances checks that every utterance has its result, on the node's instance and on another one.
func TestResultsCrossInstances(t *testing.T) {
	t.Parallel()
	const sessions, utterances = 8, 10
	all := startInstances(t, redistest.Start(t).URL(), 2)
	fleet := startNodes(t, all, all[:1], sessions, 2)
	for n, i := range all {
		if got := len(runUtterances(t, fleet, startSessions(t, i, sessions), utterances, 0)); got != sessions*utterances {
			t.Errorf("instance %d: %d results, want %d", n, got, sessions*utterances)
		}
	}
}
