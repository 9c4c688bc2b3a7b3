package main

// overview answers whether people are served now, and leads to the dashboard that says why not.
var overview = dashboard{
	name: "overview", title: "Lingua: overview",
	description: "Whether people are served now. Begin here; the other dashboards are in the menu Lingua.",
	rows: []row{
		{"Now", []panel{
			{
				kind: stat, title: "Alerts", unit: count, warn: 1, width: 4,
				description: "Alerts of the scheduler that fire. Normal: 0. The table below names them, and each has a runbook.",
				queries:     one(`count(ALERTS{alertname=~"Lingua.+", alertstate="firing"}) or vector(0)`, "firing"),
			},
			{
				kind: stat, title: "Instances up", unit: count, below: true, warn: 2, crit: 1, width: 4,
				description: "Instances that answer Prometheus. Normal: all that you run. With one left nothing may fail any more: " +
					"start the others.",
				queries: one(`count(up{$i} == 1) or vector(0)`, "up"), alerts: []string{"InstanceDown", "AllInstancesDown"},
			},
			{
				kind: stat, title: "Redis", unit: count, below: true, warn: 1, crit: 1, width: 4,
				description: "1 if every instance can use Redis. With 0, the instance that cannot refuses every dispatch: see the " +
					"dashboard Redis.",
				queries: one(`min(lingua_store_up{$i})`, "available"), alerts: []string{"StoreDown", "StoreDownForOne"},
			},
			{
				kind: stat, title: "Ready nodes", unit: count, below: true, warn: 2, crit: 1, width: 4,
				description: "Nodes that may get jobs. Normal: nearly all registered ones; the dashboard Nodes has the others by their " +
					"state.",
				queries: one(`max(lingua_nodes{$i, health="ready"})`, "ready"), alerts: []string{"NodesLost"},
			},
			{
				kind: stat, title: "Sessions", unit: count, width: 4,
				description: "Sessions of all chosen instances. Normal: what is usual at this time of the day.",
				queries:     one(`sum(lingua_sessions{$i})`, "sessions"),
			},
			{
				kind: stat, title: "Jobs in flight", unit: count, width: 4,
				description: "Jobs that nodes work on. Normal: below the slots of the fleet; compare the use of each direction below.",
				queries:     one(`sum(lingua_jobs_in_flight{$i})`, "in flight"),
			},
		}},
		{"Alerts", []panel{{
			kind: table, title: "Alerts that fire", unit: count, width: 24,
			description: "By name and severity; a single line with 0 means that none fires. The menu Runbooks has what each means, " +
				"where to look and what to do.",
			queries: one(`sum by (alertname, severity) (ALERTS{alertname=~"Lingua.+", alertstate="firing"}) or on () vector(0)`, ""),
		}}},
		{"Jobs", []panel{
			{
				title: "Jobs that ended, by state", unit: perSecond, stacked: true, width: 12,
				description: "Normal: nearly all DONE. FAILED above 2 % of all is a page: people get no translation. CANCELLED is what " +
					"clients gave up.",
				queries: one(`sum by (state) (rate(lingua_jobs_total{$i}[$r]))`, "{{state}}"), alerts: []string{"JobsFail"},
			},
			{
				title: "Refused dispatches", unit: share, warn: 0.01, crit: 0.05, width: 12,
				description: "Share of dispatches that were refused, by reason. Normal: 0. ALL_CANDIDATES_FULL_OR_FAILED: too few free " +
					"slots. NO_CAPABLE_NODE: nobody serves the direction. SCHEDULER_DEPENDENCY_DOWN: Redis.",
				queries: one(`sum by (reason) (rate(lingua_refusals_total{$i}[$r])) / on () group_left () sum(rate(lingua_dispatch_duration_seconds_count{$i}[$r]))`, "{{reason}}"),
				alerts:  []string{"FleetFull", "DirectionNotServed"},
			},
			{
				title: "Lag behind the speaker", unit: seconds, warn: 8, width: 12,
				description: "From the end of the speech until the result is sent. Normal: as long as your nodes take, and some 100 ms. " +
					"The dashboard Sessions has its parts.",
				queries: quantiles("lingua_lag_seconds", `$i, part="total"`), alerts: []string{"ResultsSlow"},
			},
			{
				title: "Duration of accepted dispatches", unit: seconds, warn: 0.1, width: 12,
				description: "From the request to the delivery to a node. Normal: some milliseconds. If it is slow: Redis, a fleet that " +
					"is nearly full, or an instance without processor time.",
				queries: quantiles("lingua_dispatch_duration_seconds", `$i, outcome="accepted"`), alerts: []string{"DispatchSlow"},
			},
		}},
		{"Fleet", []panel{
			{
				title: "Nodes by health", unit: count, stacked: true,
				description: "All registered nodes, from the statistics. Normal: nearly all ready. The dashboard Nodes explains the " +
					"others.",
				queries: one(`max by (health) (lingua_nodes{$i})`, "{{health}}"), alerts: []string{"NodesLost", "NodesEjected"},
			},
			{
				kind: bargauge, title: "Use of the busiest directions", unit: share, warn: 0.7, crit: 0.85,
				description: "Slots in use of those that could serve a direction. Normal: below 70 %. Above 85 % a burst is refused: " +
					"add nodes for that direction.",
				queries: one(`topk(10, max by (direction) (lingua_used_slots{$i}) / (max by (direction) (lingua_capacity_slots{$i}) > 0))`,
					"{{direction}}"),
				alerts: []string{"FleetNearlyFull"},
			},
			{
				title: "Directions without a spare node", unit: count, warn: 1,
				description: "Directions with jobs in the last day that have no ready node, or one. Normal: 0. `lingua stats` names " +
					"them: repair or add nodes.",
				queries: one(`max by (ready) (lingua_directions{$i, ready=~"0|1"})`, "{{ready}} ready nodes"),
				alerts:  []string{"DirectionWithoutSpare"},
			},
		}},
		{"Load of the instances", []panel{
			{
				title: "Sessions by instance", unit: count, stacked: true,
				description: "Normal: evenly distributed some time after a start. If not, look at the load balancer.",
				queries:     one(`sum by (instance) (lingua_sessions{$i})`, "{{instance}}"),
			},
			{
				title: "Processor time", unit: share,
				description: "Cores that each instance uses; 100 % is one core. Normal: well below the cores that it has. If it is all " +
					"it has, add an instance.",
				queries: one(`sum by (instance) (rate(process_cpu_seconds_total{$i}[$r]))`, "{{instance}}"),
			},
			{
				title: "Messages between instances", unit: perSecond,
				description: "Messages that instances handled for each other. Normal: some for every job whose node and session are on " +
					"different instances.",
				queries: one(`sum by (instance) (rate(lingua_messages_handled_total{$i}[$r]))`, "{{instance}}"),
			},
		}},
	},
}
