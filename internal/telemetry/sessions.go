package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Sessions counts sessions, their utterances and the messages to them.
type Sessions struct {
	Events      *prometheus.CounterVec // event: started, resumed, revived, superseded, ended, abandoned, terminated
	Utterances  *prometheus.CounterVec // reason
	Messages    *prometheus.CounterVec // kind: result, error, partial, speech
	PauseProbes prometheus.Counter

	// The series below are resolved once: looking up a label for every utterance would cost.
	terminalCount    [2]prometheus.Counter  // error, result
	terminalDuration [2]prometheus.Observer // the same
	ended            map[string]prometheus.Counter
	slow             map[SessionPath]prometheus.Counter
}

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

func newSessions(f factory, slowPath *prometheus.CounterVec) Sessions {
	s := Sessions{
		Events: f.counterVec("lingua_sessions_total",
			"Sessions that were started, resumed, revived from another instance, superseded by one, ended, abandoned or terminated by an operator.", "event"),
		Utterances:  f.counterVec("lingua_utterances_total", "Utterances that became jobs, by what ended them.", "reason"),
		Messages:    f.counterVec("lingua_session_messages_total", "Results, errors, partial results and pieces of speech that were sent to sessions.", "kind"),
		PauseProbes: f.counter("lingua_pause_probes_total", "Pings that were sent to distinguish a pause in the audio from a stalled connection."),
	}
	duration := f.histogramVec("lingua_utterance_duration_seconds", "From the end of an utterance to its terminal message, as it is sent.",
		prometheus.ExponentialBuckets(1e-3, 2, 17), "outcome")
	for i, kind := range []string{"error", "result"} {
		s.terminalCount[i], s.terminalDuration[i] = s.Messages.WithLabelValues(kind), duration.WithLabelValues(kind)
	}
	s.ended = make(map[string]prometheus.Counter, len(endReasons))
	for _, reason := range endReasons {
		s.ended[reason] = s.Utterances.WithLabelValues(reason)
	}
	s.slow = make(map[SessionPath]prometheus.Counter)
	for _, p := range []SessionPath{PathSegment, PathDispatch, PathResult} {
		s.slow[p] = slowPath.WithLabelValues(string(p))
	}
	return s
}

// CountSlow counts a step of an utterance that took too long.
func (s *Sessions) CountSlow(p SessionPath) { s.slow[p].Inc() }

// CountUtterance counts an utterance that became a job.
func (s *Sessions) CountUtterance(reason string) { s.ended[reason].Inc() }

// ObserveOutcome counts the terminal message of an utterance. The time of the commit is zero, and no duration recorded, if
// another instance committed the utterance.
func (s *Sessions) ObserveOutcome(committed time.Time, result bool) {
	kind := 0
	if result {
		kind = 1
	}
	s.terminalCount[kind].Inc()
	if !committed.IsZero() {
		s.terminalDuration[kind].Observe(time.Since(committed).Seconds())
	}
}
