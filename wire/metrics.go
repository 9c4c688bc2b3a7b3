package wire

// Metrics is the answer of GET /api/v1/metrics: what the answering instance has counted since it started.
type Metrics struct {
	Instance          string                 `json:"instance" doc:"The incarnation of the answering instance."`
	UptimeMS          int64                  `json:"uptime_ms" doc:"Since when it counts."`
	Stats             MetricsStats           `json:"stats" doc:"Requests for the statistics, GET /api/v1/stats."`
	Dispatch          MetricsDispatch        `json:"dispatch"`
	DispatchExclude   MetricsDispatchExclude `json:"dispatch_exclude"`
	ModelNotAvailable MetricsModelNA         `json:"model_not_available" doc:"Reports of nodes that a service is not available."`
	Catalog           MetricsCatalog         `json:"service_catalog" doc:"The catalog of services of the ModelHub."`
	Segmentation      MetricsSegmentation    `json:"segmentation" doc:"Utterances that became jobs, by what ended them."`
	Slow              MetricsSlow            `json:"slow"`
	LockWait          map[string]MetricsWait `json:"lock_wait" doc:"How long locks were waited for, by lock."`
}

// MetricsStats counts requests for the statistics.
type MetricsStats struct {
	Requests      int64   `json:"requests_total"`
	Stale         int64   `json:"stale_total" doc:"Requests that were answered with a snapshot that is older than it should be."`
	StaleShare    float64 `json:"stale_share" doc:"Of all requests, 0 to 1."`
	P95MS         float64 `json:"p95_ms" doc:"Of the durations of the requests, as the next."`
	P99MS         float64 `json:"p99_ms"`
	SnapshotMS    int64   `json:"snapshot_ms" doc:"When the snapshot that is served was computed, in Unix milliseconds; 0: there is none."`
	SnapshotAgeMS int64   `json:"snapshot_age_ms"`
}

// MetricsDispatch counts dispatches.
type MetricsDispatch struct {
	MetricsOutcome
	PerSecond10s float64        `json:"per_second_10s" doc:"Dispatches that were decided per second, over the last 10 seconds."`
	PerSecond1m  float64        `json:"per_second_1m" doc:"Over the last minute."`
	P95MS        float64        `json:"p95_ms" doc:"From the request to the delivery, of accepted dispatches."`
	P99MS        float64        `json:"p99_ms"`
	ModelHubDown MetricsHubDown `json:"model_hub_down" doc:"Dispatches while the last refresh of the catalog had failed."`
}

// MetricsOutcome counts dispatches by outcome.
type MetricsOutcome struct {
	Accepted     int64   `json:"accepted_total"`
	Refused      int64   `json:"refused_total"`
	SuccessShare float64 `json:"success_share" doc:"Accepted of all, 0 to 1; 1 if there were none."`
}

// MetricsHubDown counts dispatches while the ModelHub was down.
type MetricsHubDown struct {
	Now bool `json:"now" doc:"It is down now."`
	MetricsOutcome
}

// MetricsDispatchExclude says why nodes were no candidates in dispatches that were refused.
type MetricsDispatchExclude struct {
	ByReason map[string]MetricsExclusion `json:"by_reason"`
}

// MetricsExclusion counts the nodes that were excluded for one reason.
type MetricsExclusion struct {
	Count  int64    `json:"count" doc:"Each node of each refused dispatch."`
	Nodes  []string `json:"nodes" doc:"Examples: at most 5, the latest first."`
	LastMS int64    `json:"last_ms,omitempty" doc:"When the latest example was excluded, in Unix milliseconds."`
}

// MetricsModelNA counts reports of services that are not available.
type MetricsModelNA struct {
	Received     int64            `json:"received_total"`
	RateLimited  int64            `json:"rate_limited_total" doc:"Reports that marked nothing because their node had sent too many."`
	Dropped      int64            `json:"dropped_total" doc:"Reports that had less effect than they should, for another cause."`
	DroppedBy    map[string]int64 `json:"dropped_by_cause"`
	Marked       int64            `json:"marked_total"`
	Queued       int64            `json:"queued"`
	ByServiceTop []MetricsCount   `json:"by_service_top" doc:"As the other lists: the most frequent ones, at most 20."`
	ByReasonTop  []MetricsCount   `json:"by_reason_top"`
	LimitedTop   []MetricsCount   `json:"rate_limited_by_node_top"`
	MarkedTop    []MetricsCount   `json:"marked_by_node_top"`
}

// MetricsCount is the count of one name.
type MetricsCount struct {
	Name  string `json:"name" doc:"other stands for all that have no count of their own."`
	Count int64  `json:"count"`
}

// MetricsCatalog is the state of the catalog of services.
type MetricsCatalog struct {
	Configured    bool   `json:"configured" doc:"There is a ModelHub."`
	Services      int    `json:"services"`
	FailCount     int    `json:"fail_count" doc:"Refreshes that failed since the last one that did not."`
	LastError     string `json:"last_error,omitempty"`
	LastSuccessMS int64  `json:"last_success_ms" doc:"When the ModelHub last confirmed the list, in Unix milliseconds; 0: never."`
	FetchedMS     int64  `json:"fetched_ms" doc:"When the list that is served was fetched; 0: never."`
}

// MetricsSegmentation counts utterances by what ended them.
type MetricsSegmentation struct {
	Manual    int64            `json:"manual_total" doc:"Ended by the client."`
	Automatic int64            `json:"automatic_total" doc:"Ended by the scheduler."`
	ByReason  map[string]int64 `json:"by_reason"`
}

// MetricsSlow counts what took longer than its threshold.
type MetricsSlow struct {
	LockWaits map[string]int64 `json:"lock_wait_total" doc:"By lock."`
	Paths     map[string]int64 `json:"path_total" doc:"By path."`
}

// MetricsWait has how long something was waited for.
type MetricsWait struct {
	Count   int64   `json:"count"`
	TotalMS float64 `json:"total_ms"`
	P95MS   float64 `json:"p95_ms"`
	P99MS   float64 `json:"p99_ms"`
}
