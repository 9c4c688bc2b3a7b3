package cluster

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/redistest"
)

// What things may cost: what was measured and a tenth, so that a script more is noticed.
const (
	mostBeat         = 7
	mostJob          = 19
	mostJobHop       = 40
	mostUtterance    = 38
	mostUtteranceHop = 62
	mostNeighbour    = 10 // a second, for each other instance
	// A second: about every 0.75 s an instance looks who was heard, in 16 parts of three commands, which is up to 90 with
	// one look more than on average in 3 s; all else is some 30.
	mostIdle = 120
)

// lateLook is after how long an instance looks at a job of which it heard nothing. One that a node of another instance
// has, and no session waits for, is such a job.
const lateLook = 2300 * time.Millisecond

// utterancesEach is how many utterances one session is asked for at once: fewer than an instance accepts without a wait.
const utterancesEach = 12

// oneAfterAnother has the speakers say so many utterances together, never two at the same time.
func oneAfterAnother(tb testing.TB, c *crew, speakers []*speaker, times int) {
	tb.Helper()
	for _, p := range speakers {
		converse(tb, c, []*speaker{p}, min(times, utterancesEach), 0)
		times -= utterancesEach
	}
}

// expenses measures what each thing costs, each done so many times.
func expenses(tb testing.TB, times int, resting time.Duration) []expense {
	tb.Helper()
	m := &meter{server: redistest.Start(tb)}
	var list []expense
	all := start(tb, m.server.URL(), 1)
	m.rest(tb, time.Second) // Redis takes the scripts over
	m.rest(tb, resting)
	list = append(list, expense{what: "an instance alone, a second", commands: sum(m.idle), by: m.idle, most: mostIdle})
	all = append(all, start(tb, m.server.URL(), 2)...)
	m.rest(tb, time.Second) // the new ones look around
	m.rest(tb, resting)
	three := maps.Clone(m.idle)
	for name := range three {
		three[name] /= 3
	}
	list = append(list, expense{what: "one of three instances, a second", commands: sum(three), by: three, most: mostIdle + 2*mostNeighbour})

	c := hire(tb, all, all[:1], 8, 4)
	beats := connectNode(tb, all[0])
	sessions := (times + utterancesEach - 1) / utterancesEach
	here, there := gather(tb, all[0], sessions), gather(tb, all[1], sessions)
	register(tb, all[0])
	for _, p := range [][]*speaker{here, there} {
		converse(tb, c, p[:1], 3, 0)
	}
	dispatchJobs(tb, all[0], c, 3)
	dispatchJobs(tb, all[1], c, 3)
	backoff.Sleep(tb.Context(), lateLook)
	return append(list,
		m.of("a heartbeat over HTTP", mostBeat, times, func() { beatHTTP(tb, all[0], times) }),
		m.of("a heartbeat over a socket", mostBeat, times, func() { beats.send(tb, times) }),
		m.of("a job without session, one instance", mostJob, times, func() { dispatchJobs(tb, all[0], c, times) }),
		m.of("a job without session, two instances", mostJobHop, times, func() {
			dispatchJobs(tb, all[1], c, times)
			backoff.Sleep(tb.Context(), lateLook)
		}),
		m.of("an utterance, one instance", mostUtterance, times, func() { oneAfterAnother(tb, c, here, times) }),
		m.of("an utterance, two instances", mostUtteranceHop, times, func() { oneAfterAnother(tb, c, there, times) }),
	)
}

func sum(by map[string]float64) (all float64) {
	for _, n := range by {
		all += n
	}
	return all
}

// BenchmarkCommands prints what each thing costs Redis.
func BenchmarkCommands(b *testing.B) {
	for b.Loop() {
		rows := [][]string{{"", "commands", "of them scripts", "mostly"}}
		for _, e := range expenses(b, 1000, 4*time.Second) {
			rows = append(rows, []string{e.what, fmt.Sprintf("%.1f", e.commands), fmt.Sprintf("%.1f", e.scripts()), e.String()})
		}
		table("What Redis does for it", rows)
	}
	b.ReportMetric(0, "ns/op")
}

// TestCommands holds what each thing costs Redis to its bound.
func TestCommands(t *testing.T) {
	t.Parallel()
	for _, e := range expenses(t, 300, 3*time.Second) {
		t.Logf("%s: %.1f commands, of them %.1f scripts: %s", e.what, e.commands, e.scripts(), e.String())
		if e.commands > e.most || e.commands == 0 {
			t.Errorf("%s costs %.1f commands, want at most %.0f: %s", e.what, e.commands, e.most, e.String())
		}
	}
}
