package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Bus counts the messages between instances.
type Bus struct {
	MessagesSent    *prometheus.CounterVec // kind, result: sent, away, full, unknown
	MessagesHandled *prometheus.CounterVec // kind, result: done, stale, again, failed, dead, inherited, discarded
	Takeovers       *Counts                // kind: instance, node, job
	Instances       prometheus.Gauge
	InboxMessages   prometheus.Gauge
	InboxPending    prometheus.Gauge
	DeadLetters     prometheus.Gauge
	InboxLag        prometheus.Histogram
	Reclaimed       *prometheus.CounterVec // from: own, abandoned
}

// Where messages were reclaimed from.
const (
	ReclaimedOwn       = "own"       // the own inbox: they were fetched before and not acknowledged
	ReclaimedAbandoned = "abandoned" // the inbox of an instance that is gone
)

func newBus(f factory) Bus {
	b := Bus{
		MessagesSent: f.counterVec("lingua_messages_sent_total", "Messages to other instances, by kind and result.", "kind", "result"),
		MessagesHandled: f.counterVec("lingua_messages_handled_total",
			"Messages of this inbox and of those that were taken over, by kind and result.", "kind", "result"),
		Takeovers: f.counts("lingua_takeovers_total",
			"Takeovers by this instance: dead instances, their jobs, and the nodes that were connected to them. Sessions are counted in "+
				"lingua_session_events_total as revived.", "kind"),
		Instances:     f.gauge("lingua_instances", "Instances that are present."),
		InboxMessages: f.gauge("lingua_inbox_messages", "Messages in the inbox of this instance."),
		InboxPending:  f.gauge("lingua_inbox_pending", "Messages that were fetched from the inbox and are not acknowledged."),
		DeadLetters:   f.gauge("lingua_dead_letters", "Dead letters of this instance."),
		InboxLag: f.histogram("lingua_inbox_lag_seconds",
			"From the append of a message to the inbox of this instance until its handler is called, at every delivery.",
			prometheus.ExponentialBuckets(1e-3, 2, 17)),
		Reclaimed: f.counterVec("lingua_messages_reclaimed_total",
			"Messages that were fetched again because they were not acknowledged in time (own), and those that were taken over from an "+
				"instance that is gone (abandoned).", "from"),
	}
	for _, from := range []string{ReclaimedOwn, ReclaimedAbandoned} {
		b.Reclaimed.WithLabelValues(from)
	}
	return b
}
