package lab

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Report is the outcome of a run. Its JSON is described in docs/load-testing.md.
type Report struct {
	Format      int         `json:"format"` // of this document
	Version     string      `json:"version"`
	Commit      string      `json:"commit,omitempty"`
	Schedulers  []Scheduler `json:"schedulers"`
	Run         string      `json:"run"`
	Started     time.Time   `json:"started"`
	Settings    Settings    `json:"settings"`
	Interrupted bool        `json:"interrupted"`
	Valid       bool        `json:"valid"`
	Invalid     []string    `json:"invalid,omitempty"` // why the run is invalid
	Notes       []string    `json:"notes,omitempty"`

	Requests Requests        `json:"requests"`
	Failures []FailureReport `json:"failures"`
	Latency  Latencies       `json:"latency"`
	Sessions *SessionsReport `json:"sessions,omitempty"`
	Nodes    *NodesReport    `json:"nodes,omitempty"`
}

// reportFormat is the value of Report.Format. It changes when a field changes its meaning.
const reportFormat = 1

// Scheduler is an address and the version that answered there.
type Scheduler struct {
	URL     string `json:"url"`
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
}

// Settings are the settings of a run.
type Settings struct {
	Mode            Mode     `json:"mode"`
	Rate            float64  `json:"rate"`
	Arrivals        string   `json:"arrivals"`
	WarmupSeconds   float64  `json:"warmup_seconds"`
	DurationSeconds float64  `json:"duration_seconds"`
	Directions      []string `json:"directions"`
	Sessions        int      `json:"sessions"`
	SpeechMS        int64    `json:"speech_ms,omitempty"`
	PollMS          int64    `json:"poll_ms,omitempty"`
	TimeoutSeconds  float64  `json:"timeout_seconds"`
	MaxLagMS        float64  `json:"max_lag_ms"`
	Nodes           int      `json:"nodes"`
	Slots           int      `json:"slots,omitempty"`
	WorkMS          float64  `json:"work_ms,omitempty"`
	WorkSpread      float64  `json:"work_spread,omitempty"`
}

// Requests counts the requests after the warm-up. Planned is the sum of Done and Failed.
type Requests struct {
	Planned      int     `json:"planned"`
	Sent         int     `json:"sent"`
	Done         int     `json:"done"`
	Failed       int     `json:"failed"`
	Seconds      float64 `json:"seconds"`   // in which they were sent
	SentRate     float64 `json:"sent_rate"` // a second
	DoneRate     float64 `json:"done_rate"` // a second
	Polls        int     `json:"polls"`     // reads of jobs, those of the warm-up included
	Warmup       int     `json:"warmup"`    // requests of the warm-up
	WarmupFailed int     `json:"warmup_failed"`
}

// FailureReport counts failures with the same code and reason.
type FailureReport struct {
	Code   string `json:"code"`
	Reason string `json:"reason,omitempty"`
	Count  int    `json:"count"`
	Detail string `json:"detail"` // of the first one
}

// SessionsReport counts what happened to sessions.
type SessionsReport struct {
	Resumed  int             `json:"resumed"`
	Lost     int             `json:"lost"`
	Warnings []FailureReport `json:"warnings"`
}

// NodesReport is what happened to the stand-in nodes.
type NodesReport struct {
	OverAssigned int64 `json:"over_assigned"` // jobs for which a node had no free slot
	Lost         int64 `json:"lost"`          // nodes that ended by themselves
	StillListed  int   `json:"still_listed"`  // nodes that the scheduler lists after the run
	StillBusy    int   `json:"still_busy"`    // nodes of which slots are taken after the run
	Unknown      int   `json:"unknown"`       // nodes whose state could not be read after the run
}

// Latencies are the latencies of the requests that have a result; of the lag, of all that were sent.
type Latencies struct {
	Dispatch *Latency `json:"dispatch,omitempty"`
	Wait     *Latency `json:"wait,omitempty"`
	Whole    *Latency `json:"whole,omitempty"`
	Overhead *Latency `json:"overhead,omitempty"`
	Lag      *Latency `json:"lag,omitempty"`
}

// Latency is the distribution of a latency.
type Latency struct {
	Count     int64    `json:"count"`
	MeanMS    float64  `json:"mean_ms"`
	MinMS     float64  `json:"min_ms"`
	P50MS     float64  `json:"p50_ms"`
	P90MS     float64  `json:"p90_ms"`
	P95MS     float64  `json:"p95_ms"`
	P99MS     float64  `json:"p99_ms"`
	P999MS    float64  `json:"p999_ms"`
	MaxMS     float64  `json:"max_ms"`
	Histogram []Bucket `json:"histogram"`
}

// Bucket counts the latencies from FromMS to below ToMS. Empty buckets are left out. No bucket is wider than 1 % of its bound,
// unless that is less than a microsecond.
type Bucket struct {
	FromMS float64 `json:"from_ms"`
	ToMS   float64 `json:"to_ms"`
	Count  int64   `json:"count"`
}

// report summarises the run.
func (r *loadRun) report(interrupted bool) *Report {
	rec, cfg := r.recorder, &r.cfg
	rec.mu.Lock()
	defer rec.mu.Unlock()
	began, ended := r.started.Add(cfg.Warmup), r.ended
	if rec.lastSent.After(ended) {
		ended = rec.lastSent // the generator was late
	}
	seconds := max(ended.Sub(began).Seconds(), 0)
	m := &rec.measured
	report := &Report{
		Format: reportFormat, Version: cfg.Version.Version, Commit: cfg.Version.Commit, Schedulers: r.schedulers, Run: r.name,
		Started: r.started.UTC().Truncate(time.Second), Settings: cfg.settings(), Interrupted: interrupted,
		Requests: Requests{
			Planned: m.planned, Sent: m.sent, Done: m.done, Failed: m.failed, Seconds: seconds,
			SentRate: rate(m.sent, seconds), DoneRate: rate(m.done, seconds),
			Polls: rec.polls, Warmup: rec.warmup.planned, WarmupFailed: rec.warmup.failed,
		},
		Failures: reportFailures(rec.failures, func(k failureKey) (string, string) { return k.code, k.reason }),
		Latency: Latencies{
			Dispatch: summarise(rec.latencies[dispatch]), Wait: summarise(rec.latencies[wait]), Whole: summarise(rec.latencies[whole]),
			Overhead: summarise(rec.latencies[overhead]), Lag: summarise(rec.latencies[lag]),
		},
	}
	if cfg.Mode == Sockets {
		report.Sessions = &SessionsReport{
			Resumed: rec.resumed, Lost: rec.lost,
			Warnings: reportFailures(rec.warnings, func(code string) (string, string) { return code, "" }),
		}
	}
	return report
}

func rate(n int, seconds float64) float64 {
	if seconds == 0 {
		return 0
	}
	return float64(n) / seconds
}

func (c *LoadConfig) settings() Settings {
	s := Settings{
		Mode: c.Mode, Rate: c.Rate, Arrivals: "poisson", WarmupSeconds: c.Warmup.Seconds(), DurationSeconds: c.Duration.Seconds(),
		Sessions: c.Sessions, TimeoutSeconds: c.Timeout.Seconds(), MaxLagMS: milliseconds(c.MaxLag), Nodes: c.Nodes,
	}
	if c.Even {
		s.Arrivals = "even"
	}
	for _, p := range c.Pairs {
		s.Directions = append(s.Directions, p.String())
	}
	if c.Mode == Sockets {
		s.SpeechMS = c.Speech.Milliseconds()
	} else {
		s.PollMS = c.Poll.Milliseconds()
	}
	if c.Nodes > 0 {
		s.Slots, s.WorkMS, s.WorkSpread = c.Slots, milliseconds(c.Work), c.WorkSpread
	}
	return s
}

// reportFailures lists failures, the most frequent first.
func reportFailures[K comparable](all map[K]*failureCount, names func(K) (code, reason string)) []FailureReport {
	list := make([]FailureReport, 0, len(all))
	for key, f := range all {
		code, reason := names(key)
		list = append(list, FailureReport{Code: code, Reason: reason, Count: f.count, Detail: f.detail})
	}
	slices.SortFunc(list, func(a, b FailureReport) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Reason, b.Reason))
	})
	return list
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// summarise returns the distribution of a latency; nil if it was never recorded.
func summarise(r *LatencyRecorder) *Latency {
	h := r.Overall()
	if h.TotalCount() == 0 {
		return nil
	}
	ms := func(us int64) float64 { return float64(us) / 1000 }
	at := func(percentile float64) float64 { return ms(h.ValueAtQuantile(percentile)) }
	l := &Latency{
		Count: h.TotalCount(), MeanMS: milliseconds(r.Mean()), MinMS: ms(h.Min()), MaxMS: ms(h.Max()),
		P50MS: at(50), P90MS: at(90), P95MS: at(95), P99MS: at(99), P999MS: at(99.9),
	}
	for _, bar := range coarse(h).Distribution() {
		if bar.Count > 0 {
			l.Histogram = append(l.Histogram, Bucket{FromMS: ms(bar.From), ToMS: ms(bar.To + 1), Count: bar.Count})
		}
	}
	return l
}

// coarse returns a histogram with two significant digits, which has some hundreds of buckets.
func coarse(h *hdrhistogram.Histogram) *hdrhistogram.Histogram {
	c := hdrhistogram.New(1, h.HighestTrackableValue(), 2)
	for _, bar := range h.Distribution() {
		if bar.Count > 0 {
			_ = c.RecordValues(bar.From, bar.Count) // fails only above the limit, which is the same
		}
	}
	return c
}

// minRequests is the number of requests below which p99.9 is one of the two slowest.
const minRequests = 1000

// judge decides whether the run is valid, and notes what its reader should know.
func (r *Report) judge(cfg *LoadConfig) {
	invalid := func(format string, args ...any) { r.Invalid = append(r.Invalid, fmt.Sprintf(format, args...)) }
	note := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	if r.Requests.Sent == 0 {
		invalid("no request was sent after the warm-up")
	}
	if l := r.Latency.Lag; l != nil && l.P99MS > milliseconds(cfg.MaxLag) {
		invalid("the generator was late: p99 of its lag is %.1f ms, more than %.1f ms; run it on a machine with more free processor "+
			"time, or lower the rate",
			l.P99MS, milliseconds(cfg.MaxLag))
	}
	if i := slices.IndexFunc(r.Failures, func(f FailureReport) bool { return f.Code == codeNotSent }); i >= 0 {
		invalid("%d requests were not sent: %s", r.Failures[i].Count, r.Failures[i].Detail)
	}
	r.Valid = len(r.Invalid) == 0
	if r.Requests.Done > 0 && r.Requests.Done < minRequests {
		note("with fewer than %d results, p99.9 is one of the two slowest", minRequests)
	}
	if r.Requests.WarmupFailed > 0 {
		note("%d of %d requests of the warm-up failed; they are not counted above", r.Requests.WarmupFailed, r.Requests.Warmup)
	}
	if capacity := cfg.capacity(); cfg.Nodes > 0 && cfg.Rate > capacity {
		note("the stand-in nodes can do %.0f jobs a second: at %v a second, requests wait or are refused", capacity, cfg.Rate)
	}
	if n := r.Nodes; n != nil {
		if n.Lost > 0 {
			note("%d stand-in nodes ended during the run", n.Lost)
		}
		if n.StillBusy > 0 {
			note("slots of %d stand-in nodes are still taken", n.StillBusy)
		}
		if n.Unknown > 0 {
			note("what is left of %d stand-in nodes could not be read", n.Unknown)
		}
		if n.StillListed > 0 {
			note("%d stand-in nodes could not leave; the scheduler lists them until scheduler.nodes.retention_seconds have passed",
				n.StillListed)
		}
	}
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// all returns the latencies that were recorded, with their names.
func (l *Latencies) all(mode Mode) []namedLatency {
	list := []namedLatency{
		{"dispatch", map[Mode]string{HTTP: "request to answer", Sockets: "end of utterance to node"}[mode], l.Dispatch},
		{"wait", "for a free slot, as the scheduler reports it", l.Wait},
		{"whole", map[Mode]string{HTTP: "request to result", Sockets: "end of utterance to result"}[mode], l.Whole},
		{"overhead", "whole without the work of the node", l.Overhead},
		{"lag", "how late the generator was", l.Lag},
	}
	return slices.DeleteFunc(list, func(n namedLatency) bool { return n.Latency == nil })
}

// namedLatency is a latency with its name and what it measures.
type namedLatency struct {
	name, meaning string
	*Latency
}
