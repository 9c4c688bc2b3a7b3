package main

// redis is about the shared store as the instances see it, and the messages between them that it carries.
var redis = dashboard{
	name: "redis", title: "Lingua: Redis",
	description: "Redis as the instances see it, and the messages between them. Redis itself needs a dashboard of its own exporter.",
	rows: []row{
		{"Availability", []panel{
			{
				title: "Available", unit: count, below: true, warn: 1, crit: 1, width: 8,
				description: "1 while an instance can use Redis. At 0 it refuses every dispatch. All: Redis. One: its network, password " +
					"or address.",
				queries: one(`min by (instance) (lingua_store_up{$i})`, "{{instance}}"),
				alerts:  []string{"StoreDown", "StoreDownForOne"},
			},
			{
				title: "Age of the presence", unit: seconds, warn: 1, crit: 2, width: 8,
				description: "Since each instance renewed its presence. Normal: below 1 s. From two thirds of heartbeat_ttl_seconds on " +
					"it grants nothing, and then the others take over from it.",
				queries: one(`max by (instance) (lingua_presence_age_seconds{$i})`, "{{instance}}"), alerts: []string{"PresenceStale"},
			},
			{
				title: "Failed operations", unit: perSecond, warn: 0.2, width: 8,
				description: "Operations that Redis did not answer in time, by instance. Normal: 0. For seconds in a failover.",
				queries:     one(`sum by (instance) (rate(lingua_store_errors_total{$i}[$r])) or on () vector(0)`, "{{instance}}"),
				alerts:      []string{"StoreErrors"},
			},
			{
				title: "Errors by class", unit: perSecond, width: 12,
				description: "Normal: 0. What kind of failure it is says where to look: the network, a replica that was promoted, a " +
					"password, memory.",
				queries: one(`sum by (class) (rate(lingua_redis_errors_total{$i}[$r]))`, "{{class}}"), alerts: []string{"StoreErrors"},
			},
			{
				title: "Failed operations by kind", unit: perSecond, width: 12,
				description: "The ten most frequent. Normal: 0. One kind alone: its script, or one shard of a cluster.",
				queries: one(`topk(10, sum by (operation) (rate(lingua_store_errors_total{$i}[$r]))) or on () vector(0)`,
					"{{operation}}"), alerts: []string{"StoreErrors"},
			},
		}},
		{"Losses", []panel{
			{
				title: "Lost records and leases", unit: count, warn: 1,
				description: "In the window of a point. Normal: 0, but for a failover. Otherwise keys are evicted or deleted, or Redis " +
					"restarted without its log.",
				queries: one(`sum by (kind) (increase(lingua_store_lost_total{$i}[$r]))`, "{{kind}}"),
				alerts:  []string{"StoreLostData"},
			},
			{
				title: "Dropped events and audit entries", unit: count, warn: 1,
				description: "Entries that could not be written for too long. Normal: 0. Redis was away, or the disk of the audit file " +
					"is full.",
				queries: []query{
					{`sum(increase(lingua_events_dropped_total{$i}[$r]))`, "events"},
					{`sum by (log) (increase(lingua_audit_dropped_total{$i}[$r]))`, "audit, {{log}}"},
				},
				alerts: []string{"AuditIncomplete"},
			},
		}},
		{"Messages between instances", []panel{
			{
				title: "Messages in the inbox", unit: count, warn: 1000, width: 8,
				description: "By instance. Normal: near 0. Above 1,000 it is a page: the instance does not keep up, or most nodes are " +
					"on one instance and most sessions on another.",
				queries: one(`max by (instance) (lingua_inbox_messages{$i})`, "{{instance}}"), alerts: []string{"InboxGrows"},
			},
			{
				title: "Pending messages", unit: count, width: 8,
				description: "Fetched and not acknowledged, by instance. Normal: near 0. If none is handled meanwhile, the instance " +
					"hangs: restart it.",
				queries: one(`max by (instance) (lingua_inbox_pending{$i})`, "{{instance}}"), alerts: []string{"InboxStuck"},
			},
			{
				title: "Dead letters", unit: count, warn: 1, width: 8,
				description: "Messages that an instance could not handle. Normal: 0. `lingua dlq list` shows them; during an upgrade " +
					"finish it, or go back.",
				queries: one(`max by (instance) (lingua_dead_letters{$i})`, "{{instance}}"), alerts: []string{"DeadLetters"},
			},
			{
				title: "Lag of the inbox", unit: seconds, warn: 1, width: 8,
				description: "From the append of a message until its handler is called. Normal: some milliseconds. If it grows: the " +
					"instance or Redis is slow.",
				queries: quantiles("lingua_inbox_lag_seconds", "$i"), alerts: []string{"InboxGrows"},
			},
			{
				title: "Messages sent", unit: perSecond, width: 8,
				description: "By result. Normal: sent. absent: the instance is gone. full: its inbox is. unknown: Redis did not answer.",
				queries:     one(`sum by (result) (rate(lingua_messages_sent_total{$i}[$r]))`, "{{result}}"),
			},
			{
				title: "Messages handled", unit: perSecond, width: 8,
				description: "By result. Normal: done. stale: too late to matter. failed: the handler returned an error, and it is " +
					"delivered again. taken_over: from an instance that is gone.",
				queries: one(`sum by (result) (rate(lingua_messages_handled_total{$i}[$r]))`, "{{result}}"),
				alerts:  []string{"InboxStuck", "DeadLetters"},
			},
			{
				title: "Reclaimed messages", unit: count, width: 24,
				description: "In the window of a point. own: fetched before and not acknowledged, after an instance hung. abandoned: " +
					"from an instance that is gone. Normal: 0, but for stops of instances.",
				queries: one(`sum by (from) (increase(lingua_messages_reclaimed_total{$i}[$r]))`, "{{from}}"),
			},
		}},
	},
}
