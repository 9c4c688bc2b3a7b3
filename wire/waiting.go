package wire

// WaitingList is the answer of GET /v1/waiting: the requests that wait for a slot, on all instances. A request that is being offered a slot
// at this moment is not among them.
type WaitingList struct {
	NowMS     int64            `json:"now_ms" doc:"The time of the store, by which the other times are to be judged. All are Unix milliseconds."`
	Total     int              `json:"total" doc:"How many requests wait, of those that match."`
	Requests  []WaitingRequest `json:"requests" doc:"Those that have waited longest first. Of more than 1000 requests of one tenant and class only the first ones of their line are considered."`
	Pools     []WaitingPool    `json:"pools" doc:"The matching requests by the pool in whose queue they wait, as the next two lists the most first."`
	Classes   []WaitingClass   `json:"classes" doc:"The matching requests by class."`
	Tenants   []WaitingTenant  `json:"tenants" doc:"The matching requests by pool and tenant."`
	Truncated bool             `json:"truncated" doc:"One of the lists has more entries than limit allows."`
}

// WaitingRequirements says for what requests wait.
type WaitingRequirements struct {
	ClassID  string   `json:"class_id" doc:"Identifies the class: requests that the same nodes can serve."`
	SrcLang  string   `json:"src_lang,omitempty" doc:"Absent: an instance of a newer version has put the requests into the queue, and this one does not understand what they require."`
	TgtLang  string   `json:"tgt_lang,omitempty"`
	Requires []string `json:"requires" doc:"What they require of a node besides its direction, such as tts(es), service(asr-large), model(m), feature(f), region(eu), node(gpu-1), not_node(gpu-2), or tenant(acme), which has nodes of its own."`
}

// WaitingRequest is a request that waits for a slot.
type WaitingRequest struct {
	JobID    string `json:"job_id"`
	TenantID string `json:"tenant_id,omitempty"`
	PoolID   string `json:"pool_id,omitempty" doc:"The capability pool to which its tenant is bound. Absent: it is bound to none."`
	WaitingRequirements
	SinceMS    int64  `json:"since_ms" doc:"When it began to wait."`
	DeadlineMS int64  `json:"deadline_ms" doc:"When it gives up."`
	Place      int    `json:"place" doc:"Its place in the line of its tenant and class. The first one has 1."`
	EstimateMS *int64 `json:"estimate_ms,omitempty" doc:"How much longer it will probably wait. Absent: too few slots were granted to its class to know."`
	Instance   string `json:"instance" doc:"The incarnation of the instance that has the request."`
}

// WaitingPool counts the requests that wait in the queue of a pool.
type WaitingPool struct {
	PoolID   string `json:"pool_id" doc:"Empty: requests that are bound to no capability pool."`
	Waiting  int    `json:"waiting"`
	OldestMS int64  `json:"oldest_ms" doc:"Since when the one waits that has waited longest."`
}

// WaitingClass counts the requests that wait in a class.
type WaitingClass struct {
	PoolID string `json:"pool_id" doc:"Empty: requests that are bound to no capability pool."`
	WaitingRequirements
	Waiting    int      `json:"waiting"`
	OldestMS   int64    `json:"oldest_ms" doc:"Since when the one waits that has waited longest."`
	IntervalMS *float64 `json:"interval_ms,omitempty" doc:"The mean time between two slots that were granted to the class. Absent: too few were, or the caller is of one tenant."`
}

// WaitingTenant counts the requests of a tenant that wait in the queue of a pool.
type WaitingTenant struct {
	PoolID   string        `json:"pool_id" doc:"Empty: requests that are bound to no capability pool."`
	TenantID string        `json:"tenant_id,omitempty" doc:"Absent for callers without a tenant, who are one together."`
	Waiting  int           `json:"waiting"`
	OldestMS int64         `json:"oldest_ms" doc:"Since when the one waits that has waited longest."`
	Weight   float64       `json:"weight"`
	Share    *WaitingShare `json:"share,omitempty" doc:"Absent for callers of one tenant: it would tell them about the others."`
}

// WaitingShare is what a tenant got of the slots for which several tenants waited in the same class.
type WaitingShare struct {
	Granted  int     `json:"granted" doc:"How many of these slots it was granted."`
	Entitled float64 `json:"entitled" doc:"How many were its part by the weights of those who waited. It may be granted less if it got other slots for which nobody else waited."`
	WindowMS int64   `json:"window_ms" doc:"Over how long that was counted, a minute at most. 0: since the tenant began to wait, because the answering instance has not observed it before."`
}

// ExplainWait says what the wait would be of a request for which no slot is free.
type ExplainWait struct {
	PoolID        string `json:"pool_id,omitempty" doc:"The capability pool in whose queue it would wait. Absent: that of requests that are bound to none."`
	Place         int    `json:"place" doc:"Its place in the line of its tenant and class. The first one has 1."`
	TenantWaiting int    `json:"tenant_waiting" doc:"Requests of its tenant that wait in this queue."`
	EstimateMS    *int64 `json:"estimate_ms,omitempty" doc:"How long it would probably wait. Absent: that is not known."`
	Refusal       string `json:"refusal,omitempty" enum:"CANNOT_BE_MET,QUEUE_FULL" doc:"Why it could not wait, given its options.max_wait_ms. Absent: it could."`
	OtherTenants  *int   `json:"other_tenants_waiting,omitempty" doc:"Requests of other tenants that wait for the same. Absent for callers of one tenant."`
	OtherClasses  *int   `json:"other_classes_waiting,omitempty" doc:"Requests that require something else, and wait for some of the same nodes: they slow the wait down. Absent for callers of one tenant."`
	Detail        string `json:"detail"`
}
