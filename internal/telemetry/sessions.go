package telemetry

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Conversations counts what sessions do.
type Sessions struct {
	Events     *prometheus.CounterVec // event: started, resumed, revived, superseded, ended, abandoned
	Utterances *prometheus.CounterVec // reason
	Messages   *prometheus.CounterVec // kind: result, error, partial, speech

	PauseProbes prometheus.Counter

	took *prometheus.HistogramVec // outcome

	// Ready for use on the way of every utterance, where looking a label up would cost.
	answered [2]prometheus.Counter  // error, result
	waited   [2]prometheus.Observer // the same
	ended    map[string]prometheus.Counter
}

// reasons are why utterances end.
var reasons = []string{"manual", "pause", "silence", "max_duration", "end"}

// newConversations makes the counters.
func newConversations(reg *prometheus.Registry) Sessions {
	c := Sessions{
		Events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lingua_sessions_total", Help: "Sessions that were started, resumed, revived from another instance, superseded by one, ended or abandoned.",
		}, []string{"event"}),
		Utterances: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lingua_utterances_total", Help: "Utterances that became jobs, by what ended them.",
		}, []string{"reason"}),
		Messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lingua_session_messages_total", Help: "Results, errors, partial results and pieces of speech that were sent to sessions.",
		}, []string{"kind"}),
		PauseProbes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lingua_pause_probes_total", Help: "Pings that were sent to tell a pause in the audio from a stalled connection.",
		}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "lingua_utterance_duration_seconds", Help: "From the end of an utterance to its terminal message, as it is sent.",
			Buckets: prometheus.ExponentialBuckets(1e-3, 2, 17),
		}, []string{"outcome"}),
	}
	reg.MustRegister(c.Events, c.Utterances, c.Messages, c.PauseProbes, c.took)
	for i, kind := range []string{"error", "result"} {
		c.answered[i], c.waited[i] = c.Messages.WithLabelValues(kind), c.took.WithLabelValues(kind)
	}
	c.ended = make(map[string]prometheus.Counter, len(reasons))
	for _, reason := range reasons {
		c.ended[reason] = c.Utterances.WithLabelValues(reason)
	}
	return c
}

// Committed counts an utterance that became a job.
func (c *Sessions) CountUtterance(reason string) { c.ended[reason].Inc() }

// Answered notes that the terminal message of an utterance was sent. When it began is not known of one that another
// instance committed: zero.
func (c *Sessions) ObserveOutcome(committed time.Time, result bool) {
	kind := 0
	if result {
		kind = 1
	}
	c.answered[kind].Inc()
	if !committed.IsZero() {
		c.waited[kind].Observe(time.Since(committed).Seconds())
	}
}

// Gauge shows a figure that is read when somebody looks.
func (m *Metrics) RegisterGauge(name, help string, read func() float64) {
	m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
}

// Closed counts a connection that ended. What the other side says when it closes is its own affair: only what is common
// is told apart.
func (m *Metrics) CountClose(code int, byPeer bool) {
	label, side := strconv.Itoa(code), "scheduler"
	if byPeer {
		side = "peer"
		if code < 1000 || code > 1015 {
			label = "other"
		}
	}
	m.Closes.WithLabelValues(label, side).Inc()
}
