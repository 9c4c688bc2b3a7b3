package main

// waitingRow is about requests that wait for a slot, and how tenants share the slots.
var waitingRow = row{"Waiting for a slot", []panel{
	{
		title: "Waiting, by tenant", unit: count, stacked: true, width: 8,
		description: "The twenty tenants with most; none: callers without a tenant. Normal: 0, or a few for moments. One tenant alone: " +
			"it sends more than its share, and the others are not slower for it. `lingua waiting` shows every request.",
		queries: one(`sum by (tenant) (lingua_waiting_requests_by_tenant{$i}) or on () vector(0)`, "{{tenant}}"),
		alerts:  []string{"FleetFull", "WaitsRefused"},
	},
	{
		title: "Waiting, by pool", unit: count, stacked: true, width: 8,
		description: "By the capability pool to which the tenants are bound; none: requests that are bound to no pool. One pool alone: " +
			"it is too small for its tenants.",
		queries: one(`sum by (pool) (lingua_waiting_requests_by_pool{$i}) or on () vector(0)`, "{{pool}}"),
		alerts:  []string{"FleetFull"},
	},
	{
		title: "Share against entitlement", unit: share, below: true, warn: 0.8, crit: 0.5, width: 8,
		description: "Slots that a tenant got in the last minute while others waited for the same, of its part by the weights; the " +
			"lowest that an instance observed. Normal: about 100 %. Less for long: see the alert. 0 while nobody has to share.",
		queries: one(`min by (tenant) (lingua_wait_share_ratio{$i}) or on () vector(0)`, "{{tenant}}"),
		alerts:  []string{"TenantUnderserved"},
	},
	{
		title: "Duration of waits that got a slot", unit: seconds, warn: 5, width: 8,
		description: "Normal: milliseconds to a second. If it grows, the fleet is too small for bursts.",
		queries:     quantiles("lingua_wait_duration_seconds", `$i, outcome="served"`), alerts: []string{"FleetFull"},
	},
	{
		title: "Requests that were to wait", unit: perSecond, width: 8,
		description: "queued: they wait. cannot_be_met: no slot would be free in time. queue_full: too many wait, and the tenant has " +
			"its part of them. expired: their time was over.",
		queries: one(`sum by (verdict) (rate(lingua_wait_requests_total{$i}[$r]))`, "{{verdict}}"), alerts: []string{"WaitsRefused"},
	},
	{
		title: "Offers of free slots", unit: perSecond, width: 8,
		description: "Normal: nearly all that were received are used. returned: slots were taken meanwhile. unwanted: requests had " +
			"left. lapsed: instances are too slow, or cannot reach each other. found by a sweep: slots that nobody was offered when " +
			"they became free; normal after an instance was lost.",
		queries: []query{
			{`sum by (result) (rate(lingua_wait_offers_total{$i}[$r]))`, "{{result}}"},
			{`sum(rate(lingua_wait_sweeps_total{$i}[$r]))`, "found by a sweep"},
		},
	},
}}
