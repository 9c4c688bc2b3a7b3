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
}

// endReasons are the reasons for which utterances end.
var endReasons = []string{"manual", "pause", "silence", "max_duration", "end"}

func newSessions(f factory) Sessions {
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
	return s
}

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
