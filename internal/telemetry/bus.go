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
			Name: "lingua_messages_sent_total", Help: "Messages to other instances, by kind and result.",
		}, []string{"kind", "result"}),
		MessagesHandled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lingua_messages_handled_total", Help: "Messages of this inbox and of those that were taken over, by kind and result.",
		}, []string{"kind", "result"}),
		Takeovers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lingua_takeovers_total", Help: "Takeovers by this instance: dead instances, their jobs, and the nodes that were connected to them. Sessions are counted in lingua_sessions_total as revived.",
		}, []string{"kind"}),
		Instances:     gauge("lingua_instances", "Instances that are present."),
		InboxMessages: gauge("lingua_inbox_messages", "Messages in the inbox of this instance."),
		InboxPending:  gauge("lingua_inbox_pending", "Messages that were fetched from the inbox and are not acknowledged."),
		DeadLetters:   gauge("lingua_dead_letters", "Dead letters of this instance."),
	}
	reg.MustRegister(b.MessagesSent, b.MessagesHandled, b.Takeovers, b.Instances, b.InboxMessages, b.InboxPending, b.DeadLetters)
	return b
}
