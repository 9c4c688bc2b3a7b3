package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Sessions counts sessions, their utterances and the messages to them.
type Sessions struct {
	Events      *prometheus.CounterVec // event: started, resumed, revived, superseded, ended, abandoned, terminated
	Utterances  *Counts                // reason
	Messages    *prometheus.CounterVec // kind: result, error, partial, speech
	PauseProbes prometheus.Counter

	// The series below are resolved once: looking up a label for every utterance would cost.
	terminalCount    [2]prometheus.Counter  // error, result
	terminalDuration [2]prometheus.Observer // the same
	ended            map[string]*Count
	slow             map[SessionPath]*Count
	lag              [lagParts]prometheus.Observer
	lags             *lagCounts // the same, as it is published
}

// Lag is how far a result is behind its speaker, in parts that follow each other.
type Lag struct {
	Segmentation time.Duration // from the end of the speech to the end of the utterance
	Wait         time.Duration // until a node with a free slot was found
	Dispatch     time.Duration // until the node that produced the result had the job, retries included
	Node         time.Duration // until the node's result was stored
	Return       time.Duration // until it was sent: the way back, and results before it
}

// lagParts is how many series the lag has: its parts, and their sum.
const lagParts = 6

// parts returns the parts and their sum, in the order of lagNames.
func (l *Lag) parts() [lagParts]time.Duration {
	return [lagParts]time.Duration{
		l.Segmentation, l.Wait, l.Dispatch, l.Node, l.Return, l.Total(),
	}
}

// Total is the sum of the parts.
func (l *Lag) Total() time.Duration { return l.Segmentation + l.Wait + l.Dispatch + l.Node + l.Return }

// lagNames are the values of the label part.
var lagNames = [lagParts]string{"segmentation", "wait", "dispatch", "node", "return", "total"}

// SessionPath is a step of an utterance through the scheduler, a value of the label path of scheduler_slow_path_total.
type SessionPath string

// The steps of an utterance. What a node, a client or the network takes is none of them.
const (
	// PathSegment is from the moment at which an utterance should have ended, by the rules of segmentation or by its client, to its commit.
	PathSegment SessionPath = "session_segment"
	// PathDispatch is from the commit to the delivery, without the waits for a free slot and for the placement of an earlier utterance.
	PathDispatch SessionPath = "session_dispatch"
	// PathResult is from the arrival of the node's result to the message to the client, or to the instance that has the client.
	PathResult SessionPath = "session_result"
)

// endReasons are the reasons for which utterances end.
var endReasons = []string{"manual", "pause", "silence", "max_duration", "end"}

func newSessions(f factory, slowPath *Counts) Sessions {
	s := Sessions{
		lags: new(lagCounts),
		Events: f.counterVec("lingua_session_events_total",
			"Sessions that were started, resumed, revived from another instance, superseded by one, ended, abandoned or terminated by "+
				"an operator.", "event"),
		Utterances: f.counts("lingua_utterances_total", "Utterances that became jobs, by what ended them.", "reason"),
		Messages: f.counterVec("lingua_session_messages_total",
			"Results, errors, partial results and pieces of speech that were sent to sessions.", "kind"),
		PauseProbes: f.counter("lingua_pause_probes_total",
			"Pings that were sent to distinguish a pause in the audio from a stalled connection."),
	}
	duration := f.histogramVec("lingua_utterance_duration_seconds", "From the end of an utterance to its terminal message, as it is sent.",
		prometheus.ExponentialBuckets(1e-3, 2, 17), "outcome")
	for i, kind := range []string{"error", "result"} {
		s.terminalCount[i], s.terminalDuration[i] = s.Messages.WithLabelValues(kind), duration.WithLabelValues(kind)
	}
	lag := f.histogramVec("lingua_lag_seconds",
		"How far results are behind their speakers when they are sent, and its parts: segmentation, wait, dispatch, node and return add "+
			"up to total.",
		prometheus.ExponentialBuckets(1e-3, 2, 17), "part")
	for i, part := range lagNames {
		s.lag[i] = lag.WithLabelValues(part)
	}
	s.ended = make(map[string]*Count, len(endReasons))
	for _, reason := range endReasons {
		s.ended[reason] = s.Utterances.WithLabelValues(reason)
	}
	s.slow = make(map[SessionPath]*Count)
	for _, p := range []SessionPath{PathSegment, PathDispatch, PathResult} {
		s.slow[p] = slowPath.WithLabelValues(string(p))
	}
	return s
}

// ObserveLag records the lag of a result that was sent.
func (s *Sessions) ObserveLag(l Lag) {
	for i, part := range l.parts() {
		s.lag[i].Observe(part.Seconds())
		s.lags[i][durationBucket(part)].Add(1)
	}
}

// CountSlow counts a step of an utterance that took too long.
func (s *Sessions) CountSlow(p SessionPath) { s.slow[p].Inc() }

// CountUtterance counts an utterance that became a job.
func (s *Sessions) CountUtterance(reason string) { s.ended[reason].Inc() }

// ObserveOutcome counts the terminal message of an utterance. The time of the commit is zero, and no duration recorded, if
// another instance committed the utterance. The trace id may be empty.
func (s *Sessions) ObserveOutcome(committed time.Time, result bool, traceID string) {
	kind := 0
	if result {
		kind = 1
	}
	s.terminalCount[kind].Inc()
	if !committed.IsZero() {
		observe(s.terminalDuration[kind], time.Since(committed).Seconds(), traceID)
	}
}
