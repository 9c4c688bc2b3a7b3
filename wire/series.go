package wire

// ClusterSeries is the answer of GET /api/v1/series: figures of the whole fleet over the last hour.
type ClusterSeries struct {
	IntervalMS int64          `json:"interval_ms" doc:"The usual time between two points."`
	Points     []ClusterPoint `json:"points" doc:"The oldest first. There is none for a time in which no instance computed statistics."`
}

// ClusterPoint has the figures of the fleet at one time, and what was counted since the point before.
type ClusterPoint struct {
	AtMS   int64 `json:"at_ms" doc:"In Unix milliseconds, on the clock of the instance that computed it."`
	SpanMS int64 `json:"span_ms" doc:"The time over which jobs, refusals and dispatches were counted."`

	Done      int64 `json:"done" doc:"Jobs that ended with a result."`
	Failed    int64 `json:"failed"`
	Cancelled int64 `json:"cancelled"`
	Refused   int64 `json:"refused" doc:"Requests that were refused."`
	// Refusals is absent if nothing was refused.
	Refusals  map[string]int64 `json:"refusals,omitempty" doc:"The requests that were refused, by code. Absent: there were none."`
	Retries   int64            `json:"retries" doc:"Attempts that were followed by another."`
	Waiting   int              `json:"waiting" doc:"Requests that wait for a free slot."`
	InFlight  int              `json:"jobs_in_flight" doc:"Each uses a slot."`
	Sessions  int              `json:"sessions"`
	Instances int              `json:"instances"`

	Ready        int `json:"ready" doc:"Nodes that may get jobs if they have a free slot."`
	Degraded     int `json:"degraded"`
	Draining     int `json:"draining"`
	Ejected      int `json:"ejected"`
	Disconnected int `json:"disconnected"`
	Offline      int `json:"offline"`
	Slots        int `json:"slots" doc:"Slots of the ready nodes."`
	UsedSlots    int `json:"used_slots" doc:"Of these, the ones in use, as far as the instance that computed it knew."`

	DispatchP50MS float64 `json:"dispatch_p50_ms,omitempty" doc:"The median time from a request to its delivery. Absent: nothing was dispatched."`
	DispatchP95MS float64 `json:"dispatch_p95_ms,omitempty" doc:"The time that 95 % of the requests did not exceed."`

	Lag *ClusterLag `json:"lag,omitempty" doc:"How far the results that were sent to sessions are behind their speakers. Absent: none was sent."`
}

// ClusterLag says how far results are behind their speakers.
type ClusterLag struct {
	Quantiles
	Stages LagStages `json:"stages" doc:"The parts of the lag. Quantiles of parts do not add up to those of the whole."`
}

// LagStages has the parts of the lag, in the order in which they follow each other.
type LagStages struct {
	Segmentation Quantiles `json:"segmentation" doc:"From the end of the speech to the end of the utterance."`
	Wait         Quantiles `json:"wait" doc:"Until a node with a free slot was found."`
	Dispatch     Quantiles `json:"dispatch" doc:"Until the node that produced the result had the job, retries included."`
	Node         Quantiles `json:"node" doc:"Until the node's result was stored."`
	Return       Quantiles `json:"return" doc:"Until it was sent: the way back, and results before it."`
}

// Quantiles are the durations that half, 95 % and 99 % of the results did not exceed.
type Quantiles struct {
	P50MS int64 `json:"p50_ms"`
	P95MS int64 `json:"p95_ms"`
	P99MS int64 `json:"p99_ms"`
}

// NodeSeries is the answer of GET /v1/nodes/{id}/series: figures of one node over the last hour.
type NodeSeries struct {
	NodeID     string      `json:"node_id"`
	IntervalMS int64       `json:"interval_ms" doc:"The time between two points."`
	Points     []NodePoint `json:"points" doc:"The oldest first. There is none for a time in which the node was not registered, or the instance did not run."`
	Incomplete []string    `json:"incomplete,omitempty" doc:"The instances that could not be asked, or did not answer in time: jobs that they counted are missing."`

	Failures map[string]int `json:"failures,omitempty" doc:"The attempts of the last hour that ended without a result, by reason, as all instances counted them. Absent: none."`
}

// NodePoint has the figures of a node at one time, and what all instances counted since the point before.
type NodePoint struct {
	AtMS      int64  `json:"at_ms" doc:"In Unix milliseconds, a multiple of the interval."`
	State     string `json:"state" enum:"ready,degraded,draining,ejected,disconnected,offline"`
	Slots     int    `json:"slots" doc:"Slots that may be granted, at most 4095."`
	UsedSlots *int   `json:"used_slots,omitempty" doc:"Slots in use, as far as an instance knew."`
	Done      int    `json:"done" doc:"Jobs that ended with its result."`
	Failed    int    `json:"failed" doc:"Attempts that it failed, did not acknowledge or did not end in time."`
	MeanMS    int64  `json:"mean_ms,omitempty" doc:"The mean duration of the attempts that ended with a result, in steps of 10 ms."`
}

// LiveOverview is an event of GET /v1/live.
type LiveOverview struct {
	Point ClusterPoint `json:"point" doc:"The newest figures of the fleet."`
}

// LiveStatus is an event of GET /v1/live: the instance that answers, and whether it can reach the store.
type LiveStatus struct {
	Instance       string `json:"instance" doc:"The incarnation of the instance that answers."`
	StoreReachable bool   `json:"store_reachable" doc:"It can use the store, as the calls of the last moment found."`
}
