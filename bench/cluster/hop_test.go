package cluster

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/redistest"
)

const hopTurns = 15

// BenchmarkHop has nodes connected with one instance, and people with the same and with another, who take turns: one who
// speaks again as soon as there is a result, sixteen who pause, and sixteen who do not, which is all that the machine
// can do.
func BenchmarkHop(b *testing.B) {
	for b.Loop() {
		rows := [][]string{{"speakers", "pausing", "instances", "", "to the node", "with its sound", "back", "whole", "utterances/s"}}
		added, _ := hop(b, situation{speakers: 1, says: 60}, &rows)
		b.ReportMetric(inMS(added), "ms-added")
		added, _ = hop(b, situation{speakers: 16, says: 5, pausing: 60 * time.Millisecond}, &rows)
		b.ReportMetric(inMS(added), "ms-added-beside-others")
		_, slower := hop(b, situation{speakers: 16, says: 20}, &rows)
		b.ReportMetric(slower, "of-the-rate-of-one-instance")
		table("The way of an utterance; the node is with one instance, the session with the same or with another", rows)
	}
	b.ReportMetric(0, "ns/op")
}

// situation is how people speak.
type situation struct {
	speakers int
	says     int // utterances of each in a turn
	pausing  time.Duration
}

// ways are the parts of an utterance's way.
var ways = []func(trip) time.Duration{
	func(t trip) time.Duration { return t.job }, func(t trip) time.Duration { return t.sound },
	func(t trip) time.Duration { return t.back }, func(t trip) time.Duration { return t.whole },
}

// hop measures in a situation, and returns what the second instance adds to the median of the whole way, and how much of
// the rate is left.
func hop(b *testing.B, in situation, rows *[][]string) (added time.Duration, left float64) {
	all := start(b, redistest.Start(b).URL(), 2)
	c := hire(b, all, all[:1], in.speakers, 2)
	paths := [2][]*speaker{gather(b, all[0], in.speakers), gather(b, all[1], in.speakers)}
	for _, p := range paths {
		converse(b, c, p, in.says, 0) // both begin warm
	}
	var trips [2][]trip
	var rates [2][]float64
	var ratios []float64
	more := make([][]time.Duration, len(ways))
	for range hopTurns {
		var turn [2][]trip
		for n, p := range paths {
			began := time.Now()
			turn[n] = converse(b, c, p, in.says, in.pausing)
			rates[n] = append(rates[n], float64(len(turn[n]))/time.Since(began).Seconds())
			trips[n] = append(trips[n], turn[n]...)
		}
		ratios = append(ratios, rates[1][len(rates[1])-1]/rates[0][len(rates[0])-1])
		for w, way := range ways {
			more[w] = append(more[w], median(each(turn[1], way))-median(each(turn[0], way)))
		}
	}
	row := func(instances, what, rate string, of func(w int) time.Duration) {
		cells := []string{strconv.Itoa(in.speakers), in.pausing.String(), instances, what}
		for w := range ways {
			cells = append(cells, ms(of(w)))
		}
		*rows = append(*rows, append(cells, rate))
	}
	for n, name := range []string{"one", "two"} {
		row(name, "p50", fmt.Sprintf("%.0f", median(rates[n])), func(w int) time.Duration { return median(each(trips[n], ways[w])) })
		row(name, "p99", "", func(w int) time.Duration { return part(each(trips[n], ways[w]), 0.99) })
	}
	row("added", "p50", fmt.Sprintf("%.2f of one", median(ratios)), func(w int) time.Duration { return median(more[w]) })
	return median(more[len(ways)-1]), median(ratios)
}

// each is one part of many trips.
func each(trips []trip, of func(trip) time.Duration) []time.Duration {
	list := make([]time.Duration, len(trips))
	for i, t := range trips {
		list[i] = of(t)
	}
	return list
}

// TestResultsArrive: every utterance has its result, whether the session is with the node's instance or with another.
func TestResultsArrive(t *testing.T) {
	t.Parallel()
	const speakers, says = 8, 10
	all := start(t, redistest.Start(t).URL(), 2)
	c := hire(t, all, all[:1], speakers, 2)
	for n, i := range all {
		if got := len(converse(t, c, gather(t, i, speakers), says, 0)); got != speakers*says {
			t.Errorf("instance %d: %d results, want %d", n, got, speakers*says)
		}
	}
}
