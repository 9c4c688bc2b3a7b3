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

	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
)

// dashboard shows the state of a demo: redrawn every second on a terminal, one line a second elsewhere.
type dashboard struct {
	out         io.Writer
	url         string
	interactive bool // out is a terminal
	scheduler   *scheduler.Scheduler
	nodes       []*lab.SocketNode
	started     time.Time
	ran         time.Duration // set when the run has ended

	mu          sync.Mutex
	overhead    *lab.LatencyRecorder
	utterance   *lab.LatencyRecorder
	done        int
	failed      map[string]int64 // by reason
	resumed     int              // sessions that lost their connection and resumed
	lost        int              // sessions that lost their connection and did not resume
	endedAtTick int              // utterances that had ended at the last tick
	drawnLines  int              // lines of the last drawing
}

func newDashboard(out io.Writer, url string, s *scheduler.Scheduler) *dashboard {
	return &dashboard{
		out: out, url: url, interactive: isTerminal(out), scheduler: s, nodes: append(lab.DemoNodes(), lab.ContestedNode()),
		started:  time.Now(),
		overhead: lab.NewLatencyRecorder(time.Minute), utterance: lab.NewLatencyRecorder(time.Minute), failed: make(map[string]int64),
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

// recordUtterance records the outcome of an utterance.
func (d *dashboard) recordUtterance(u lab.Utterance) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.utterance.Record(u.Total)
	if u.Reason != "" {
		d.failed[u.Reason]++
		return
	}
	d.done++
	d.overhead.Record(u.Overhead)
}

// recordResume records that a session resumed after its connection was lost.
func (d *dashboard) recordResume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.resumed++
}

// recordLostSession records that a session ended with an error.
func (d *dashboard) recordLostSession() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost++
}

// run draws every second until the context ends.
func (d *dashboard) run(ctx context.Context) {
	fmt.Fprintf(d.out, "the dashboard in a browser: %s/dashboard\n", d.url)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			d.ran = time.Since(d.started)
			return
		case <-tick.C:
			if d.interactive {
				d.redraw()
			} else {
				fmt.Fprintln(d.out, d.summaryLine())
			}
			d.rotate()
		}
	}
}

// rotate starts the next second of the latencies of the last seconds.
func (d *dashboard) rotate() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.overhead.Rotate()
	d.utterance.Rotate()
}

// finish draws the last state, with the figures of the whole run, and prints whether a node was ever over-committed.
func (d *dashboard) finish() {
	if d.interactive {
		d.redraw()
	} else {
		fmt.Fprint(d.out, d.render())
	}
	verdict := "no node was ever sent more jobs than its slots"
	overCommitted := 0
	for _, f := range d.nodes {
		if f.Worker.Stats().OverAssigned > 0 {
			overCommitted++
		}
	}
	if overCommitted > 0 {
		verdict = fmt.Sprintf("%d nodes WERE SENT MORE JOBS THAN THEIR SLOTS", overCommitted)
	}
	fmt.Fprintf(d.out, "\nended after %s: %d utterances translated, %d failed; %s\n",
		d.ran.Round(time.Second), d.done, sum(d.failed), verdict)
}

func (d *dashboard) redraw() {
	text := d.render()
	if d.drawnLines > 0 {
		fmt.Fprintf(d.out, "\x1b[%dF\x1b[J", d.drawnLines) // up to the first line drawn, and clear
	}
	d.drawnLines = strings.Count(text, "\n")
	fmt.Fprint(d.out, text)
}

// terminalWidth is the assumed width of a terminal. A longer line would wrap, and redraw would clear too few lines.
const terminalWidth = 79

// truncateLines shortens every line to the width of a terminal.
func truncateLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		runes := []rune(strings.TrimSuffix(line, "\n"))
		b.WriteString(strings.TrimRight(string(runes[:min(len(runes), terminalWidth)]), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// totals are the figures that both forms of the dashboard show.
type totals struct {
	done, failed, inFlight, slots int
	rate                          float64 // utterances a second
}

// totals computes the figures; the rate is that since the last call or, after the end, that of the whole run.
func (d *dashboard) totals() totals {
	t := totals{done: d.done, failed: int(sum(d.failed)), inFlight: d.scheduler.Jobs.InFlight()}
	for _, f := range d.nodes {
		t.slots += f.Slots
	}
	ended := t.done + t.failed
	t.rate = float64(ended - d.endedAtTick)
	d.endedAtTick = ended
	if d.ran > 0 {
		t.rate = float64(ended) / d.ran.Seconds()
	}
	return t
}

// summaryLine is the dashboard as one line.
func (d *dashboard) summaryLine() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.totals()
	return fmt.Sprintf("%4.0fs  %5.0f utterances/s  done %d  failed %d  in flight %d/%d  overhead %s  retries %d  resumed %d",
		time.Since(d.started).Seconds(), t.rate, t.done, t.failed, t.inFlight, t.slots,
		d.overhead.FormatRecent(), d.scheduler.Metrics.Retries.Sum(), d.resumed)
}

// render is the dashboard as a page.
func (d *dashboard) render() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.totals()
	b := &strings.Builder{}
	fmt.Fprintf(b, "lingua demo · %s · %s · Ctrl-C ends it\n\n", time.Since(d.started).Round(time.Second), d.url)
	fmt.Fprintf(b, "  utterances %d done · %d in flight · %.0f a second\n", t.done, t.inFlight, t.rate)
	fmt.Fprintf(b, "  failed     %s\n", formatCounts(d.failed))
	format := (*lab.LatencyRecorder).FormatRecent
	if d.ran > 0 {
		format = (*lab.LatencyRecorder).FormatOverall
	}
	fmt.Fprintf(b, "  latency    %s\n", format(d.utterance))
	fmt.Fprintf(b, "  overhead   %s\n", format(d.overhead))
	fmt.Fprintf(b, "  capacity   %s %d of %d slots (%.0f %%)\n", formatBar(t.inFlight, t.slots, 24), t.inFlight, t.slots,
		100*float64(t.inFlight)/float64(max(t.slots, 1)))
	fmt.Fprintf(b, "  retries    %s\n", formatCounts(d.scheduler.Metrics.Retries.All()))
	fmt.Fprintf(b, "  sessions   %d open · %d resumed · %d lost\n", d.scheduler.Sessions.Len(), d.resumed, d.lost)
	fmt.Fprintf(b, "\n  %-9s %-18s %-14s %6s %6s  %s\n", "NODE", "LANGUAGES", "SLOTS", "DONE", "FAILED", "FAULT")
	for _, f := range d.nodes {
		s := f.Worker.Stats()
		slots := fmt.Sprintf("%s %d/%d", formatBar(s.Active, f.Slots, f.Slots), s.Active, f.Slots)
		fmt.Fprintf(b, "  %-9s %-18s %-14s %6d %6d  %s\n", f.ID, strings.Join(f.Langs, " "), slots, s.Done, s.Failed, f.Fault)
	}
	return truncateLines(b.String())
}

func sum(counts map[string]int64) int64 {
	n := int64(0)
	for _, v := range counts {
		n += v
	}
	return n
}

// formatCounts formats the sum of the counts and then each of them, the largest first.
func formatCounts(counts map[string]int64) string {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	parts := []string{strconv.FormatInt(sum(counts), 10)}
	for _, k := range keys {
		parts = append(parts, fmt.Sprintf("%s %d", k, counts[k]))
	}
	return strings.Join(parts, " · ")
}

// formatBar draws n of limit as a bar.
func formatBar(n, limit, width int) string {
	full := 0
	if limit > 0 {
		full = min((n*width+limit-1)/limit, width)
	}
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}
