package lab

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText writes the report for people, and with histogram the distribution of each latency.
func (r *Report) WriteText(w io.Writer, histogram bool) {
	r.writeHeader(w)
	r.writeRequests(w)
	r.writeLatencies(w)
	if histogram {
		for _, l := range r.Latency.all(r.Settings.Mode) {
			writeHistogram(w, l)
		}
	}
	r.writeVerdict(w)
}

// writeHeader writes what was run.
func (r *Report) writeHeader(w io.Writer) {
	s := &r.Settings
	fmt.Fprintf(w, "lingua bench %s\n", version(r.Version, r.Commit))
	for _, target := range r.Schedulers {
		fmt.Fprintf(w, "scheduler  %s at %s\n", version(target.Version, target.Commit), target.URL)
	}
	fmt.Fprintf(w, "run        %s, %s\n", r.Run, r.Started.Format(time.RFC3339))
	fmt.Fprintf(w, "load       %s a second (%s) for %s after %s of warm-up, %s\n",
		number(s.Rate), s.Arrivals, seconds(s.DurationSeconds), seconds(s.WarmupSeconds), strings.Join(s.Directions, ", "))
	switch s.Mode {
	case Sockets:
		fmt.Fprintf(w, "mode       sockets, %d sessions, utterances of %s\n", s.Sessions, formatMS(float64(s.SpeechMS)))
	case HTTP:
		fmt.Fprintf(w, "mode       http, %d session ids, a job is read every %s\n", s.Sessions, formatMS(float64(s.PollMS)))
	}
	if s.Nodes > 0 {
		fmt.Fprintf(w, "nodes      %d stand-in nodes with %d slots each, work %s (spread %s)\n", s.Nodes, s.Slots, formatMS(s.WorkMS),
			number(s.WorkSpread))
	} else {
		fmt.Fprintln(w, "nodes      those of the scheduler")
	}
}

// writeRequests writes the numbers of requests.
func (r *Report) writeRequests(w io.Writer) {
	q := &r.Requests
	fmt.Fprintf(w, "\nsent       %d of %d in %s: %.1f a second of %s asked\n", q.Sent, q.Planned, seconds(q.Seconds), q.SentRate,
		number(r.Settings.Rate))
	fmt.Fprintf(w, "done       %d (%.1f a second)\n", q.Done, q.DoneRate)
	fmt.Fprintf(w, "failed     %d (%.2f %%)\n", q.Failed, 100*float64(q.Failed)/float64(max(q.Planned, 1)))
	for _, f := range r.Failures {
		fmt.Fprintf(w, "  %d × %s: %q\n", f.Count, strings.TrimSpace(f.Code+" "+f.Reason), f.Detail)
	}
	if s := r.Sessions; s != nil {
		fmt.Fprintf(w, "sessions   %d resumed, %d lost\n", s.Resumed, s.Lost)
		for _, f := range s.Warnings {
			fmt.Fprintf(w, "  %d warnings %s: %q\n", f.Count, f.Code, f.Detail)
		}
	}
	switch n := r.Nodes; {
	case n == nil:
	case n.OverAssigned > 0:
		fmt.Fprintf(w, "slots      %d JOBS WERE SENT TO NODES WITHOUT A FREE SLOT\n", n.OverAssigned)
	default:
		fmt.Fprintln(w, "slots      no node was sent more jobs than its slots")
	}
}

// writeLatencies writes the percentiles.
func (r *Report) writeLatencies(w io.Writer) {
	all := r.Latency.all(r.Settings.Mode)
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "latency\tmean\tp50\tp90\tp95\tp99\tp99.9\tmax\t")
	for _, l := range all {
		fmt.Fprintf(t, "%s\t", l.name)
		for _, ms := range []float64{l.MeanMS, l.P50MS, l.P90MS, l.P95MS, l.P99MS, l.P999MS, l.MaxMS} {
			fmt.Fprintf(t, "%s\t", formatMS(ms))
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush()
	fmt.Fprintln(w, "Latencies count from when a request was due.")
	for _, l := range all {
		fmt.Fprintf(w, "  %-8s  %s\n", l.name, l.meaning)
	}
}

// writeVerdict writes whether the run is valid.
func (r *Report) writeVerdict(w io.Writer) {
	fmt.Fprintln(w)
	for _, text := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", text)
	}
	if r.Interrupted {
		fmt.Fprintf(w, "the run was interrupted after %s of load\n", seconds(r.Requests.Seconds))
	}
	if r.Valid {
		fmt.Fprintln(w, "the run is valid")
	}
	for _, reason := range r.Invalid {
		fmt.Fprintf(w, "THE RUN IS INVALID: %s\n", reason)
	}
}

const (
	// bucketsPerDoubling is the number of rows of a histogram between a latency and its double, and barWidth the length of the
	// longest bar.
	bucketsPerDoubling = 2
	barWidth           = 40
	maxRows            = 30
)

// writeHistogram draws the distribution of a latency, with bounds that grow exponentially.
func writeHistogram(w io.Writer, l namedLatency) {
	perDoubling := float64(bucketsPerDoubling)
	row := func(ms float64) int { return int(math.Ceil(perDoubling * math.Log2(max(ms, 0.01)))) }
	first, last := row(l.Histogram[0].ToMS), row(l.Histogram[len(l.Histogram)-1].ToMS)
	if last-first >= maxRows {
		perDoubling /= 2
		first, last = row(l.Histogram[0].ToMS), row(l.Histogram[len(l.Histogram)-1].ToMS)
	}
	rows := make([]int64, last-first+1)
	longest := int64(1)
	for _, b := range l.Histogram {
		i := row(b.ToMS) - first
		rows[i] += b.Count
		longest = max(longest, rows[i])
	}
	fmt.Fprintf(w, "\n%s, %d requests\n", l.name, l.Count)
	below := int64(0)
	for i, count := range rows {
		below += count
		bar := strings.Repeat("█", int(math.Ceil(barWidth*float64(count)/float64(longest))))
		line := fmt.Sprintf("  ≤ %8s %7d  %6.2f %%  %s", formatMS(math.Exp2(float64(first+i)/perDoubling)), count,
			100*float64(below)/float64(l.Count), bar)
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}

func formatMS(ms float64) string {
	return FormatLatency(time.Duration(ms * float64(time.Millisecond)))
}

// seconds formats a number of seconds.
func seconds(s float64) string { return number(math.Round(s*10)/10) + " s" }

// number formats a number without trailing zeros.
func number(v float64) string { return fmt.Sprintf("%g", v) }

// version formats a version with its commit.
func version(name, commit string) string {
	if commit == "" {
		return name
	}
	return name + " (" + commit[:min(len(commit), 12)] + ")"
}
