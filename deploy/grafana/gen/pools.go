package main

// poolsRow is about capability pools. Without pools it shows 0.
var poolsRow = row{"Capability pools", []panel{
	{
		title: "Jobs by pool", unit: perSecond, stacked: true, width: 8,
		description: "Selections that found a slot, by the pool of the node; none: nodes without a pool. Normal: as the ready nodes are " +
			"divided, if no tenant is bound. 0 without pools.",
		queries: one(`sum by (pool) (rate(phase3_pool_selected_total{$i, outcome="selected"}[$r])) or on () vector(0)`, "{{pool}}"),
	},
	{
		title: "Fallbacks and refusals", unit: perSecond, width: 8, warn: 1,
		description: "Normal: nearly 0. next_pool: the first pool that was tried had no free slot. outside: no eligible pool had one, " +
			"so jobs leave them. refused: none had one. `lingua pools` shows which pools are full.",
		queries: one(`sum by (outcome, fallback) (rate(phase3_pool_selected_total{$i, outcome="refused"}[$r]) or rate(phase3_pool_selected_total{$i, fallback!="none"}[$r])) or on () vector(0)`, "{{outcome}} {{fallback}}"),
		alerts:  []string{"FleetFull"},
	},
	{
		title: "Pools without a slot, by reason", unit: perSecond, width: 8,
		description: "Pools that were tried in vain, by the most frequent reason of their nodes. full: the pool is too small. " +
			"missing_core_…_installed: its nodes lack the direction. missing_core_…_not_ready: their services are not ready.",
		queries: one(`sum by (pool, reason) (rate(phase3_pool_attempt_total{$i, result="failed"}[$r])) or on () vector(0)`,
			"{{pool}} {{reason}}"),
		alerts: []string{"FleetFull", "DirectionNotServed"},
	},
}}
