package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Nodes counts registrations and heartbeats of nodes.
type Nodes struct {
	NodeRegistration *prometheus.CounterVec // status
	HeartbeatLatency prometheus.Histogram
	Orphans          *prometheus.CounterVec // kind
	Admissions       *prometheus.CounterVec // decision, reason
	SilentHeard      prometheus.Counter
}

func newNodes(f factory) Nodes {
	return Nodes{
		NodeRegistration: f.counterVec("node_registration_total", "Registrations of nodes.", "status"),
		HeartbeatLatency: f.histogram("node_heartbeat_latency_ms", "Time to handle a heartbeat.",
			prometheus.ExponentialBuckets(0.01, 2, 18)),
		Admissions: f.counterVec("lingua_node_admissions_total",
			"Decisions about nodes that fail much more often than others: ejected, readmitted, or withheld because a direction needs "+
				"the node.", "decision", "reason"),
		SilentHeard: f.counter("lingua_silent_nodes_heard_total",
			"Nodes that were treated as disconnected because they were silent with a job, and sent something over the same connection "+
				"afterwards."),
		Orphans: f.counterVec("lingua_reconciled_leases_total", "Leases that did not match the jobs that their node listed.", "kind"),
	}
}
