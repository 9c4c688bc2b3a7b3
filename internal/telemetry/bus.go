package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Bus counts what passes between instances.
type Bus struct {
	MessagesSent    *prometheus.CounterVec // kind, result: sent, away, full, unknown
	MessagesHandled *prometheus.CounterVec // kind, result: done, stale, again, failed, dead, inherited, discarded
	Takeovers       *prometheus.CounterVec // kind: instance, node, job
	Instances       prometheus.Gauge
	InboxMessages   prometheus.Gauge
	InboxPending    prometheus.Gauge
	DeadLetters     prometheus.Gauge
}

func newBus(reg *prometheus.Registry) Bus {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	b := Bus{
		MessagesSent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lingua_messages_sent_total", Help: "Letters to other instances, by kind and by whether they were taken.",
		}, []string{"kind", "result"}),
		MessagesHandled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lingua_messages_handled_total", Help: "Letters in this instance's inbox, or inherited from others, by what became of them.",
		}, []string{"kind", "result"}),
		Takeovers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lingua_takeovers_total", Help: "What this instance has taken over from others: instances that were gone, jobs they saw through, nodes that were connected with them. Sessions are in lingua_sessions_total, as revived.",
		}, []string{"kind"}),
		Instances:     gauge("lingua_instances", "Instances that are present."),
		InboxMessages: gauge("lingua_inbox_messages", "Letters in this instance's inbox."),
		InboxPending:  gauge("lingua_inbox_pending", "Letters of these that were fetched and are not dealt with."),
		DeadLetters:   gauge("lingua_dead_letters", "Dead letters of this instance."),
	}
	reg.MustRegister(b.MessagesSent, b.MessagesHandled, b.Takeovers, b.Instances, b.InboxMessages, b.InboxPending, b.DeadLetters)
	return b
}
