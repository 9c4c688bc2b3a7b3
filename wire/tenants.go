package wire

// TenantList is the answer of GET /v1/tenants.
type TenantList struct {
	Tenants    []TenantInfo `json:"tenants" doc:"Ordered by tenant_id: the tenants that have limits or a weight of their own, and those of which an instance has jobs or sessions, or refused some since it started."`
	NextCursor string       `json:"next_cursor,omitempty" doc:"Names the next page; absent on the last one."`
	Partial    bool         `json:"partial,omitempty" doc:"An instance could not be asked, or did not answer."`
}

// TenantInfo is a tenant with its limits, and how close it is to them.
type TenantInfo struct {
	TenantID   string           `json:"tenant_id,omitempty" doc:"Absent for callers without a tenant, who are one together."`
	Configured bool             `json:"configured" doc:"The configuration of the answering instance has an entry for this tenant. The others have that of \"*\", if there is one."`
	Weight     float64          `json:"weight" doc:"Its share of the slots for which tenants wait, relative to the weights of the others."`
	InFlight   TenantUse        `json:"in_flight" doc:"Its jobs that have not ended. Without a limit of jobs it is what the instances count, each for itself."`
	Sessions   TenantUse        `json:"sessions" doc:"Its sessions that have not ended. Without a limit it is what the instances count, each for itself."`
	Dispatches *TenantRate      `json:"dispatches,omitempty" doc:"The rate at which its jobs may begin, a second. Absent: there is no limit."`
	Audio      *TenantRate      `json:"audio_seconds,omitempty" doc:"The seconds of audio that its utterances may have, a minute. Absent: there is no limit."`
	Refusals   map[string]int64 `json:"refusals" doc:"How often each limit has refused a job or a session since the instances started. A request that waits is counted each time that it tries."`
}

// TenantUse is how much a tenant uses of something at once.
type TenantUse struct {
	Used int `json:"used"`
	Max  int `json:"max,omitempty" doc:"The limit. Absent: there is none."`
}

// TenantRate is a token bucket of a tenant.
type TenantRate struct {
	Limit float64 `json:"limit" doc:"How much is refilled in the time that the limit is for."`
	Left  float64 `json:"left" doc:"How much may be used now. Audio may be negative: utterances are refused until it is not."`
}
