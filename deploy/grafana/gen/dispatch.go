package main

// dispatch is about how jobs get to nodes, and why not.
var dispatch = dashboard{
	name: "dispatch", title: "Lingua: dispatch", byDirection: true,
	description: "How jobs get to nodes: decisions, reservations, attempts, their ends, and the use of directions.",
	rows: []row{
		{"Rates of all instances over five minutes", []panel{
			{
				kind: stat, title: "Granted reservations", unit: share, below: true, warn: 0.8, crit: 0.5,
				description: "Of all reservations of a slot. Normal: above 80 %. Less: the fleet is nearly full, and several nodes are " +
					"tried for each job.",
				queries: one(`reserve_success_rate`, "granted"), alerts: []string{"FleetFull"},
			},
			{
				kind: stat, title: "Queries without a node", unit: share, warn: 0.01, crit: 0.1,
				description: "Of all queries for nodes of a direction, those that found none. Normal: 0. If not, a client asks for what " +
					"no node declares.",
				queries: one(`pool_empty_rate`, "empty"), alerts: []string{"DirectionNotServed"},
			},
			{
				kind: stat, title: "Deliveries without acknowledgement", unit: share, warn: 0.01, crit: 0.05,
				description: "Of all deliveries that may have arrived. Normal: 0. Nodes that hang, or whose network does.",
				queries:     one(`ack_timeout_rate`, "not acknowledged"), alerts: []string{"AttemptsFail"},
			},
			{
				kind: stat, title: "Refused by busy nodes", unit: share, warn: 0.01, crit: 0.05,
				description: "Of all deliveries. Normal: 0. Nodes count fewer free slots than they declare.",
				queries:     one(`node_overload_refusal_rate`, "busy"), alerts: []string{"AttemptsFail"},
			},
		}},
		{"Decisions", []panel{
			{
				title: "Dispatches", unit: perSecond, width: 8, stacked: true,
				description: "Decided requests for a node. Normal: nearly all accepted. An utterance waits for a slot for " +
					"scheduler.sessions.wait_ms before it is refused, and counts once.",
				queries: one(`sum by (outcome) (rate(lingua_dispatch_duration_seconds_count{$i}[$r]))`, "{{outcome}}"),
			},
			{
				title: "Refusals by reason", unit: perSecond, width: 8,
				description: "Normal: 0. ALL_CANDIDATES_FULL_OR_FAILED: add nodes or slots. NO_CAPABLE_NODE: see the table of reasons " +
					"below. SCHEDULER_DEPENDENCY_DOWN: Redis.",
				queries: one(`sum by (reason) (rate(lingua_refusals_total{$i}[$r]))`, "{{reason}}"),
				alerts:  []string{"FleetFull", "DirectionNotServed"},
			},
			{
				title: "Requests that wait for a slot", unit: count, width: 8, warn: 1,
				description: "Requests of sessions that found all nodes busy. Normal: 0, or a few for moments. If it stays above 0, the " +
					"fleet is too small.",
				queries: one(`sum by (instance) (lingua_waiting_requests{$i})`, "{{instance}}"), alerts: []string{"FleetFull"},
			},
			{
				title: "Duration of accepted dispatches", unit: seconds, warn: 0.1, width: 8,
				description: "From the request to the delivery. Normal: some milliseconds. If it is slow: Redis, many FULL among the " +
					"reservations, HTTP nodes that answer slowly, or no processor time.",
				queries: quantiles("lingua_dispatch_duration_seconds", `$i, outcome="accepted"`), alerts: []string{"DispatchSlow"},
			},
			{
				title: "Reservations by verdict", unit: perSecond, width: 8,
				description: "Answers of the ledger of slots. Normal: nearly all OK. Many FULL: the fleet is nearly full, or instances " +
					"know too late of each other's jobs.",
				queries: one(`sum by (verdict) (rate(lingua_reserve_total{$i}[$r]))`, "{{verdict}}"),
			},
			{
				title: "Selections by result", unit: perSecond, width: 8,
				description: "Selections of a node for a job, retries included. Normal: nearly all OK.",
				queries:     one(`sum by (result) (rate(node_selection_total{$i}[$r]))`, "{{result}}"),
			},
		}},
		{"Attempts", []panel{
			{
				title: "Deliveries by result", unit: perSecond, width: 12,
				description: "Normal: nearly all delivered. busy: the node counts fewer free slots than the scheduler. refused, " +
					"unknown: its connection or callback is broken.",
				queries: one(`sum by (result) (rate(lingua_deliveries_total{$i}[$r]))`, "{{result}}"),
			},
			{
				title: "Attempts that failed", unit: share, warn: 0.05, width: 12,
				description: "Share of attempts that were followed by another, by reason. Normal: below 1 %. ACK_TIMEOUT: nodes hang. " +
					"NODE_FAILED: see their logs. NODE_LOST: they restart. ATTEMPT_TIMEOUT: they are too slow.",
				queries: one(`sum by (reason) (rate(lingua_retries_total{$i}[$r])) / on () group_left () sum(rate(lingua_deliveries_total{$i, result="delivered"}[$r]))`, "{{reason}}"),
				alerts:  []string{"AttemptsFail"},
			},
			{
				title: "Fenced messages", unit: perSecond, warn: 1, width: 12,
				description: "Messages that changed nothing because their sender does not hold the job. Normal: some after a node or an " +
					"instance was lost. If they do not stop: nodes that are too slow, or two with one name.",
				queries: one(`sum by (message, cause) (rate(lingua_fenced_total{$i}[$r])) or on () vector(0)`, "{{message}} {{cause}}"),
				alerts:  []string{"FencedMessages"},
			},
			{
				title: "Leases that were corrected", unit: perSecond, width: 12,
				description: "Leases that did not match the jobs that a node listed. Normal: some after a node or an instance was lost. " +
					"takeover: jobs of an instance that is gone.",
				queries: one(`sum by (kind) (rate(lingua_reconciled_leases_total{$i}[$r]))`, "{{kind}}"),
			},
		}},
		{"Ends of jobs", []panel{
			{
				title: "Jobs that ended, by state", unit: perSecond, stacked: true,
				description: "Normal: nearly all DONE. FAILED above 2 % is a page; `lingua jobs --state failed` has the reasons.",
				queries:     one(`sum by (state) (rate(lingua_jobs_total{$i}[$r]))`, "{{state}}"), alerts: []string{"JobsFail"},
			},
			{
				title: "Duration of jobs that are done", unit: seconds,
				description: "From the record of a job to its result, retries included. Normal: as long as your nodes take. If it " +
					"grows: slow nodes, or retries.",
				queries: quantiles("lingua_job_duration_seconds", `$i, state="DONE"`), alerts: []string{"ResultsSlow"},
			},
		}},
		{"Directions", []panel{
			{
				title: "Use by direction", unit: share, warn: 0.7, crit: 0.85,
				description: "Slots in use, by jobs of any direction, of those that could serve a direction. Normal: below 70 %. Above " +
					"85 % a burst is refused.",
				queries: one(`max by (direction) (lingua_used_slots{$i, $d}) / (max by (direction) (lingua_capacity_slots{$i, $d}) > 0)`,
					"{{direction}}"),
				alerts: []string{"FleetNearlyFull"},
			},
			{
				title: "Jobs in flight by direction", unit: count, stacked: true,
				description: "Normal: below the slots of the direction, beside this.",
				queries:     one(`sum by (direction) (lingua_jobs_in_flight{$i, $d})`, "{{direction}}"),
			},
			{
				title: "Slots by direction", unit: count,
				description: "Slots of ready nodes that may serve a direction; a node counts in each of its directions. If it falls, " +
					"nodes are gone, drained or ejected.",
				queries: one(`max by (direction) (lingua_capacity_slots{$i, $d})`, "{{direction}}"),
			},
		}},
		waitingRow,
		poolsRow,
		{"Why jobs are refused", []panel{
			{
				kind: table, title: "Refusals", unit: count, width: 12,
				description: "Refused selections in the chosen time by the requirement that was not met and the reason of most nodes. " +
					"Without a reason: no node declares the direction. A single line with 0: none. `lingua explain` gives the reason " +
					"for each node.",
				queries: one(`sort_desc(sum by (selector, reason) (increase(scheduler_no_available_node_total{$i}[$__range]))) or on () vector(0)`, ""),
				alerts:  []string{"DirectionNotServed"},
			},
			{
				title: "Rejected candidates by reason", unit: perSecond, width: 12,
				description: "Nodes that were no candidates in refused dispatches. FULL: too few slots. EJECTED, SET_ASIDE: they fail. " +
					"HEARTBEAT_STALE, DISCONNECTED: they are gone.",
				queries: one(`sum by (reason) (rate(lingua_candidates_rejected_total{$i}[$r])) or on () vector(0)`, "{{reason}}"),
				alerts:  []string{"FleetFull"},
			},
			{
				title: "Slow requests by path", unit: perSecond, width: 12,
				description: "Requests that took longer than path_warn_ms. Normal: 0. All paths: the processor or Redis. Dispatch " +
					"alone: HTTP nodes or a full fleet.",
				queries: one(`sum by (path) (rate(scheduler_slow_path_total{$i}[$r])) or on () vector(0)`, "{{path}}"),
				alerts:  []string{"DispatchSlow"},
			},
			{
				title: "Dispatches while the ModelHub is down", unit: perSecond, width: 12,
				description: "Dispatch does not depend on the ModelHub: normal is that they are accepted as always. 0 while it answers.",
				queries:     one(`sum by (outcome) (rate(lingua_dispatches_model_hub_down_total{$i}[$r]))`, "{{outcome}}"),
				alerts:      []string{"CatalogStale"},
			},
		}},
	},
}
