package main

// instances is about the processes of the scheduler and their work in the background.
var instances = dashboard{
	name: "instances", title: "Lingua: instances",
	description: "The processes of the scheduler: whether they are up and agree, what they use, and their work in the background.",
	rows: []row{
		{"Presence", []panel{
			{
				title: "Up", unit: count, below: true, warn: 1, crit: 1, width: 6,
				description: "1 while an instance answers Prometheus. If it does not: systemctl status lingua, and its log.",
				queries:     one(`max by (instance) (up{$i})`, "{{instance}}"), alerts: []string{"InstanceDown", "AllInstancesDown"},
			},
			{
				title: "Known instances", unit: count, width: 6,
				description: "How many instances each one knows of, itself included. Normal: the same everywhere. If they differ for " +
					"more than a minute, they do not share one store.",
				queries: one(`max by (instance) (lingua_instances{$i})`, "{{instance}}"), alerts: []string{"InstancesSplit"},
			},
			{
				title: "Running for", unit: seconds, width: 6,
				description: "Time since the start of each process. One that is short again and again: it crashes or is killed, see its " +
					"log.",
				queries: one(`time() - max by (instance) (process_start_time_seconds{$i})`, "{{instance}}"),
				alerts:  []string{"InstanceDown"},
			},
			{
				title: "Takeovers", unit: count, width: 6,
				description: "In the window of a point. Normal: 0, but for stops of instances. instance, job: one that died. node: " +
					"connected to another before.",
				queries: one(`sum by (kind) (increase(lingua_takeovers_total{$i}[$r]))`, "{{kind}}"),
				alerts:  []string{"RepeatedTakeovers"},
			},
		}},
		{"Resources", []panel{
			{
				title: "Processor time", unit: share, width: 8,
				description: "100 % is one core. Normal: well below the cores that it has. If it is all it has, add an instance.",
				queries:     one(`sum by (instance) (rate(process_cpu_seconds_total{$i}[$r]))`, "{{instance}}"),
			},
			{
				title: "Memory", unit: size, width: 8,
				description: "Resident memory. Normal: below GOMEMLIMIT, and about steady for the same number of sessions. If it grows " +
					"for days, collect a bug report and restart it.",
				queries: one(`max by (instance) (process_resident_memory_bytes{$i})`, "{{instance}}"),
			},
			{
				title: "Open files", unit: share, warn: 0.8, crit: 0.95, width: 8,
				description: "Of the permitted ones. A connection is a file. At the limit no connection is accepted: raise LimitNOFILE " +
					"or add an instance.",
				queries: one(`max by (instance) (process_open_fds{$i}) / max by (instance) (process_max_fds{$i})`, "{{instance}}"),
				alerts:  []string{"FilesRunOut"},
			},
			{
				title: "Goroutines", unit: count, width: 12,
				description: "Normal: a few for each connection and job. If it grows while connections do not, collect a bug report.",
				queries:     one(`max by (instance) (go_goroutines{$i})`, "{{instance}}"),
			},
			{
				title: "Pauses of the garbage collector", unit: share, warn: 0.01, width: 12,
				description: "Share of the time in which the process stood still. Normal: far below 1 %. More: GOMEMLIMIT is too low " +
					"for its sessions.",
				queries: one(`sum by (instance) (rate(go_gc_duration_seconds_sum{$i}[$r]))`, "{{instance}}"),
			},
		}},
		{"Statistics", []panel{
			{
				title: "Age of the statistics", unit: seconds, warn: 15, crit: 30, width: 6,
				description: "Of the snapshot that each instance serves. Normal: below scheduler.stats.interval_seconds and some " +
					"seconds. All: no instance computes them. One: it cannot read from Redis.",
				queries: one(`max by (instance) (lingua_stats_age_seconds{$i})`, "{{instance}}"), alerts: []string{"StatsStale"},
			},
			{
				title: "Leader", unit: count, width: 6,
				description: "1 on the instance that computes the statistics. Normal: exactly one; within 10 s another one after it has " +
					"stopped.",
				queries: one(`max by (instance) (lingua_stats_leader{$i})`, "{{instance}}"), alerts: []string{"StatsStale"},
			},
			{
				title: "Requests for the statistics", unit: perSecond, width: 6,
				description: "All, and those that were answered with a snapshot that is too old. Normal: none stale.",
				queries: []query{
					{`sum(rate(scheduler_stats_requests_total{$i}[$r]))`, "all"},
					{`sum(rate(scheduler_stats_stale_total{$i}[$r]))`, "stale"},
				},
				alerts: []string{"StatsStale"},
			},
			{
				title: "Time to answer for the statistics", unit: seconds, warn: 0.1, width: 6,
				description: "Normal: below a millisecond: a request only copies the snapshot. More: the processor.",
				queries:     quantiles("scheduler_stats_request_duration_seconds", "$i"),
			},
			{
				title: "Ends of jobs that statistics lack", unit: count, warn: 1, width: 24,
				description: "In the window of a point. Normal: 0. More: the processor is too slow for the load; the other metrics are " +
					"complete.",
				queries: one(`sum by (instance) (increase(lingua_observations_dropped_total{$i}[$r]))`, "{{instance}}"),
			},
		}},
		{"Catalog of the ModelHub", []panel{
			{
				title: "Age of the catalog", unit: seconds, warn: 120, crit: 600, width: 6,
				description: "Since the ModelHub confirmed the list of services. Normal: below scheduler.model_hub.refresh_seconds. " +
					"Empty without a ModelHub. Dispatch does not depend on it.",
				queries: one(`max by (instance) (lingua_catalog_age_seconds{$i})`, "{{instance}}"), alerts: []string{"CatalogStale"},
			},
			{
				title: "Failures in a row", unit: count, warn: 3, width: 6,
				description: "Refreshes of the list that failed since the last success. Normal: 0. The log has the error. From 3 on the " +
					"interval grows.",
				queries: one(`max by (instance) (lingua_catalog_failures{$i})`, "{{instance}}"), alerts: []string{"CatalogStale"},
			},
			{
				title: "Services in the catalog", unit: count, width: 6,
				description: "Normal: the same on all instances. 0: the instance has started while the ModelHub did not answer.",
				queries:     one(`max by (instance) (lingua_catalog_services{$i})`, "{{instance}}"), alerts: []string{"CatalogStale"},
			},
			{
				title: "Refreshes", unit: perSecond, width: 6,
				description: "Of the list and of single services, by result. Normal: not_modified or ok. skipped: no request after many " +
					"failures.",
				queries: one(`sum by (kind, result) (rate(lingua_catalog_refreshes_total{$i}[$r]))`, "{{kind}} {{result}}"),
				alerts:  []string{"CatalogStale"},
			},
		}},
		{"Locks and traces", []panel{
			{
				title: "Waits for locks", unit: share, warn: 0.1, width: 8,
				description: "The share of its time that one goroutine would have waited, by lock. Normal: far below 10 %. More: the " +
					"processor, or a defect; docs/locks.md says what each lock guards.",
				queries: one(`topk(10, sum by (lock) (rate(lingua_lock_wait_seconds_sum{$i}[$r]))) or on () vector(0)`, "{{lock}}"),
			},
			{
				title: "Slow waits for locks", unit: perSecond, warn: 1, width: 8,
				description: "Longer than lock_wait_warn_ms, by lock. Normal: 0. The log has some of them. All locks at once: the " +
					"processor.",
				queries: one(`topk(10, sum by (lock) (rate(scheduler_slow_lock_wait_total{$i}[$r])))`, "{{lock}}"),
			},
			{
				title: "Spans of traces", unit: perSecond, width: 8,
				description: "Exported and dropped ones. 0 without scheduler.tracing.otlp_endpoint. Dropped: the collector does not " +
					"answer, or too much is sampled. Jobs do not wait for it.",
				queries: []query{
					{`sum(rate(lingua_spans_exported_total{$i}[$r]))`, "exported"},
					{`sum by (reason) (rate(lingua_spans_dropped_total{$i}[$r]))`, "dropped: {{reason}}"},
				},
			},
		}},
		{"Access", []panel{
			{
				title: "Denied requests", unit: perSecond, warn: 1,
				description: "By status and reason. Normal: near 0. unknown, expired, revoked: a client with an old key, or somebody " +
					"tries. `lingua audit --outcome denied` has who.",
				queries: one(`sum by (status, reason) (rate(lingua_denied_total{$i}[$r])) or on () vector(0)`, "{{status}} {{reason}}"),
				alerts:  []string{"Denials"},
			},
			{
				title: "Dropped audit entries", unit: count, warn: 1,
				description: "In the window of a point. Normal: 0. file: the disk. store: Redis was away for long.",
				queries:     one(`sum by (log) (increase(lingua_audit_dropped_total{$i}[$r]))`, "{{log}}"),
				alerts:      []string{"AuditIncomplete"},
			},
		}},
	},
}
