package main

// nodes is about the fleet: who is there, who fails, and which services are missing.
var nodes = dashboard{
	name: "nodes", title: "Lingua: nodes",
	description: "The fleet: which nodes are there, which fail, and which services they lack. `lingua nodes` has them by name.",
	rows: []row{
		{"Fleet", []panel{
			{
				title: "Nodes by health", unit: count, stacked: true, width: 8,
				description: "Normal: nearly all ready. ejected: they fail much more often than others. disconnected: their connection " +
					"was lost a moment ago. offline: silent. draining: an operator or the node itself. degraded: they say so.",
				queries: one(`max by (health) (lingua_nodes{$i})`, "{{health}}"), alerts: []string{"NodesLost", "NodesEjected"},
			},
			{
				title: "Connected nodes by instance", unit: count, stacked: true, width: 8,
				description: "Nodes with a socket. HTTP nodes have none. Normal: steady, and evenly distributed some time after a " +
					"start. All at once: the load balancer, its certificate, or tokens.",
				queries: one(`sum by (instance) (lingua_connected_nodes{$i})`, "{{instance}}"), alerts: []string{"NodesLost"},
			},
			{
				title: "Directions by ready nodes", unit: count, width: 8,
				description: "Directions with jobs in the last day. Normal: all have more than one ready node. 0: every request is " +
					"refused. 1: no node is left if it fails.",
				queries: one(`max by (ready) (lingua_directions{$i})`, "{{ready}} ready nodes"),
				alerts:  []string{"DirectionWithoutSpare"},
			},
		}},
		{"Registrations and heartbeats", []panel{
			{
				title: "Registrations by status", unit: perSecond, width: 8,
				description: "Normal: a few when nodes start. again: nodes that reconnect all the time have a bad network or restart. " +
					"refused: two nodes with one name. revoked: a key that was removed.",
				queries: one(`sum by (status) (rate(node_registration_total{$i}[$r]))`, "{{status}}"),
				alerts:  []string{"RepeatedTakeovers"},
			},
			{
				title: "Time to handle a heartbeat", unit: millis, warn: 100, width: 8,
				description: "Normal: below some milliseconds. If it grows: Redis, or an instance without processor time.",
				queries:     quantiles("node_heartbeat_latency_ms", `$i`), alerts: []string{"StoreErrors"},
			},
			{
				title: "Nodes that changed their instance", unit: perSecond, width: 8, warn: 0.1,
				description: "Normal: 0, but for starts and stops of instances. If it does not stop: a load balancer that cuts " +
					"connections, or two nodes with one name.",
				queries: one(`sum by (instance) (rate(lingua_takeovers_total{$i, kind="node"}[$r]))`, "{{instance}}"),
				alerts:  []string{"RepeatedTakeovers"},
			},
		}},
		{"Nodes that fail", []panel{
			{
				title: "Ejected nodes", unit: count, warn: 1, width: 8,
				description: "Nodes that get no jobs for a while. Normal: 0. `lingua events --kind node_ejected` has their names and " +
					"reasons; drain those that stay broken.",
				queries: one(`max(lingua_nodes{$i, health="ejected"})`, "ejected"), alerts: []string{"NodesEjected"},
			},
			{
				title: "Decisions about failing nodes", unit: count, width: 8,
				description: "In the window of a point. ejected and readmitted in turn: a node that stays broken. withheld: it fails, " +
					"but its directions need it: they need another node.",
				queries: one(`sum by (decision, reason) (increase(lingua_node_admissions_total{$i}[$r]))`, "{{decision}} {{reason}}"),
				alerts:  []string{"NodesEjected"},
			},
			{
				title: "Attempts that failed", unit: perSecond, width: 8,
				description: "Attempts that were followed by another, by reason. Normal: below 1 % of the deliveries; the dashboard " +
					"Dispatch has the share.",
				queries: one(`sum by (reason) (rate(lingua_retries_total{$i}[$r]))`, "{{reason}}"), alerts: []string{"AttemptsFail"},
			},
		}},
		{"Unavailable services", []panel{
			{
				title: "Reports by reason", unit: perSecond, warn: 0.2, width: 8,
				description: "Nodes that get a job and lack a service that they declare. Normal: 0. Have the node declare what it has, " +
					"or install the service.",
				queries: one(`sum by (reason) (rate(scheduler_model_na_by_reason_total{$i}[$r]))`, "{{reason}}"),
				alerts:  []string{"ServicesMissing"},
			},
			{
				kind: table, title: "Reports by service", unit: count, width: 8,
				description: "In the chosen time. One service on many nodes: a roll-out or the ModelHub. A single line with 0: none.",
				queries:     one(`topk(20, sum by (service_id) (increase(scheduler_model_na_by_service_total{$i}[$__range]))) or on () vector(0)`, ""), alerts: []string{"ServicesMissing"},
			},
			{
				kind: table, title: "Marks by node", unit: count, width: 8,
				description: "Services that were marked as unavailable, in the chosen time. One node with many: its disk, its " +
					"downloads, or a declaration that is wrong.",
				queries: one(`topk(20, sum by (node_id) (increase(scheduler_model_na_marked_by_node_total{$i}[$__range]))) or on () vector(0)`, ""), alerts: []string{"ServicesMissing"},
			},
			{
				title: "Reports that had less effect", unit: perSecond, width: 8,
				description: "Normal: 0. queue_full: a storm of reports. store: Redis. gone, late: the node or the mark was over before.",
				queries:     one(`sum by (cause) (rate(scheduler_model_na_dropped_total{$i}[$r]))`, "{{cause}}"),
			},
			{
				title: "Reports over the limit of a node", unit: perSecond, width: 8,
				description: "Reports that marked nothing because their node sent too many. Normal: 0. The node repeats itself: look at " +
					"its log.",
				queries: one(`topk(10, sum by (node_id) (rate(scheduler_model_na_rate_limited_by_node_total{$i}[$r]))) or on () vector(0)`,
					"{{node_id}}"),
			},
			{
				title: "Queued reports", unit: count, warn: 512, width: 8,
				description: "Reports that wait for Redis, by instance. Normal: 0. They are handled beside dispatch, which they do not " +
					"delay.",
				queries: one(`sum by (instance) (scheduler_model_na_queue_length{$i})`, "{{instance}}"),
			},
		}},
	},
}
