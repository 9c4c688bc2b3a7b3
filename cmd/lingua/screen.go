package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/sim"
)

// screen shows what a demo is doing: redrawn every second on a terminal, one line a second elsewhere.
type screen struct {
	out   io.Writer
	url   string
	live  bool
	s     *scheduler.Scheduler
	nodes []*sim.SocketNode
	began time.Time
	ran   time.Duration

	mu        sync.Mutex
	overhead  *latency
	utterance *latency
	done      int
	failed    map[string]int // by reason
	cuts      int            // sessions that went on after one
	broken    int            // sessions that did not
	last      int            // utterances ended at the last tick
	lines     int            // drawn at the last tick
}

func newScreen(out io.Writer, url string, s *scheduler.Scheduler) *screen {
	return &screen{
		out: out, url: url, live: isTerminal(out), s: s, nodes: sim.DemoNodes(), began: time.Now(),
		overhead: newLatency(), utterance: newLatency(), failed: make(map[string]int),
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// heard takes in what became of an utterance.
func (sc *screen) heard(u sim.Utterance) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.utterance.record(u.Total)
	if u.Reason != "" {
		sc.failed[u.Reason]++
		return
	}
	sc.done++
	sc.overhead.record(u.Overhead)
}

// resumed takes in that a session went on after a cut, and lost that one did not.
func (sc *screen) resumed() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.cuts++
}

func (sc *screen) lost() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.broken++
}

// run draws until the context ends.
func (sc *screen) run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			sc.ran = time.Since(sc.began)
			return
		case <-tick.C:
			if sc.live {
				sc.redraw()
			} else {
				fmt.Fprintln(sc.out, sc.line())
			}
			sc.pass()
		}
	}
}

// pass lets a second pass: what was seen long ago is shown no more.
func (sc *screen) pass() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.overhead.pass()
	sc.utterance.pass()
}

// end draws the last state, with figures of the whole run, and says whether any node was ever given too much.
func (sc *screen) end() {
	if sc.live {
		sc.redraw()
	} else {
		fmt.Fprint(sc.out, sc.picture())
	}
	verdict := "no node was ever sent more jobs than its slots"
	over := 0
	for _, f := range sc.nodes {
		if f.Worker.Stats().OverAssigned > 0 {
			over++
		}
	}
	if over > 0 {
		verdict = fmt.Sprintf("%d nodes WERE SENT MORE JOBS THAN THEIR SLOTS", over)
	}
	fmt.Fprintf(sc.out, "\nended after %s: %d utterances translated, %d failed; %s\n",
		sc.ran.Round(time.Second), sc.done, total(sc.failed), verdict)
}

func (sc *screen) redraw() {
	picture := sc.picture()
	if sc.lines > 0 {
		fmt.Fprintf(sc.out, "\x1b[%dF\x1b[J", sc.lines) // up, and to the first column
	}
	sc.lines = strings.Count(picture, "\n")
	fmt.Fprint(sc.out, picture)
}

// screenWidth is what every terminal has: a line that wrapped would spoil the count of lines.
const screenWidth = 79

// cut shortens every line to the width of a screen.
func cut(picture string) string {
	var b strings.Builder
	for line := range strings.Lines(picture) {
		text := []rune(strings.TrimSuffix(line, "\n"))
		b.WriteString(strings.TrimRight(string(text[:min(len(text), screenWidth)]), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// tally is what both forms show.
type tally struct {
	done, failed, jobs, inFlight, slots int
	rate                                float64
}

func (sc *screen) tally() tally {
	t := tally{done: sc.done, failed: total(sc.failed), inFlight: sc.s.Jobs.InFlight()}
	t.jobs = t.done + t.failed
	for _, f := range sc.nodes {
		t.slots += f.Slots
	}
	t.rate = float64(t.jobs - sc.last)
	sc.last = t.jobs
	if sc.ran > 0 {
		t.rate = float64(t.jobs) / sc.ran.Seconds()
	}
	return t
}

func (sc *screen) line() string {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	t := sc.tally()
	return fmt.Sprintf("%4.0fs  %5.0f utterances/s  done %d  failed %d  in flight %d/%d  overhead %s  retries %d  cuts %d",
		time.Since(sc.began).Seconds(), t.rate, t.done, t.failed, t.inFlight, t.slots,
		sc.overhead.recently(), total(sc.retries()), sc.cuts)
}

func (sc *screen) picture() string {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	t := sc.tally()
	b := &strings.Builder{}
	fmt.Fprintf(b, "lingua demo · %s · %s · Ctrl-C ends it\n\n", time.Since(sc.began).Round(time.Second), sc.url)
	fmt.Fprintf(b, "  utterances %d done · %d in flight · %.0f a second\n", t.done, t.inFlight, t.rate)
	fmt.Fprintf(b, "  failed     %s\n", counts(sc.failed))
	figures := (*latency).recently
	if sc.ran > 0 {
		figures = (*latency).overall
	}
	fmt.Fprintf(b, "  took       %s\n", figures(sc.utterance))
	fmt.Fprintf(b, "  overhead   %s\n", figures(sc.overhead))
	fmt.Fprintf(b, "  capacity   %s %d of %d slots (%.0f %%)\n", bar(t.inFlight, t.slots, 24), t.inFlight, t.slots, 100*float64(t.inFlight)/float64(max(t.slots, 1)))
	fmt.Fprintf(b, "  retries    %s\n", counts(sc.retries()))
	fmt.Fprintf(b, "  sessions   %d here · %d cut and resumed · %d lost\n", sc.s.Sessions.Len(), sc.cuts, sc.broken)
	fmt.Fprintf(b, "\n  %-9s %-18s %-14s %6s %6s  %s\n", "NODE", "LANGUAGES", "SLOTS", "DONE", "FAILED", "FAULT")
	for _, f := range sc.nodes {
		s := f.Worker.Stats()
		slots := fmt.Sprintf("%s %d/%d", bar(s.Active, f.Slots, f.Slots), s.Active, f.Slots)
		fmt.Fprintf(b, "  %-9s %-18s %-14s %6d %6d  %s\n", f.ID, strings.Join(f.Langs, " "), slots, s.Done, s.Failed, f.Fault)
	}
	return cut(b.String())
}

// retries reads the scheduler's own count, by reason.
func (sc *screen) retries() map[string]int {
	byReason := make(map[string]int)
	families, err := sc.s.Metrics.Registry.Gather()
	if err != nil {
		return byReason
	}
	for _, f := range families {
		if f.GetName() != "lingua_retries_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			byReason[m.GetLabel()[0].GetValue()] = int(m.GetCounter().GetValue())
		}
	}
	return byReason
}

func total[K comparable](m map[K]int) int {
	n := 0
	for _, v := range m {
		n += v
	}
	return n
}

func counts[K ~string](m map[K]int) string {
	keys := slices.SortedFunc(maps.Keys(m), func(a, b K) int { return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b)) })
	parts := []string{strconv.Itoa(total(m))}
	for _, k := range keys {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(parts, " · ")
}

func bar(n, of, width int) string {
	full := 0
	if of > 0 {
		full = min((n*width+of-1)/of, width)
	}
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}
