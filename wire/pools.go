package wire

// PoolOverview is the answer of GET /api/v1/phase3/pools: the capability pools as the answering instance sees them.
type PoolOverview struct {
	Enabled    bool   `json:"enabled" doc:"The fleet is divided into capability pools."`
	Generation int64  `json:"generation" doc:"Grows whenever an instance publishes other pools. All instances have the same within a second. 0: none were ever published."`
	MatchScope string `json:"pool_match_scope,omitempty" enum:"core_only,all_required" doc:"By what pools are eligible for a job. Absent without pools."`
	Strict     bool   `json:"strict_pool_eligibility" doc:"A job for which no pool is eligible is refused."`
	HashSeed   int64  `json:"hash_seed"`
	Affinity   int    `json:"session_affinity_seconds" doc:"For how long after an utterance the next one of its session is tried in the same pool first."`

	FileDiffers bool   `json:"file_differs" doc:"The configuration of the answering instance describes other pools than those in force. A reload with publish_pools publishes them."`
	Problem     string `json:"problem,omitempty" doc:"Why the answering instance cannot use the pools of this generation; those before stay in force on it."`
	CountedMS   int64  `json:"counted_ms" doc:"When the nodes were counted, Unix milliseconds. In a very large fleet they are not counted for every request."`

	Pools       []Pool      `json:"pools" doc:"In the order of the configuration; at most 1000."`
	WithoutPool WithoutPool `json:"without_pool" doc:"The nodes that belong to no pool. None while pools are not enabled."`
}

// Pool is a capability pool with its nodes.
type Pool struct {
	PoolID           string           `json:"pool_id"`
	Name             string           `json:"name,omitempty"`
	RequiredServices []string         `json:"required_services" doc:"The services that its nodes have installed."`
	Nodes            PoolNodes        `json:"nodes"`
	Slots            PoolSlots        `json:"slots"`
	CoreServices     PoolCoreServices `json:"core_services" doc:"On how many of its online nodes the stages of the pipeline are installed, and ready."`
	Examples         []PoolNode       `json:"examples" doc:"Some of its nodes, at most 5: ready ones, and ones that are not."`
	Tenants          []string         `json:"tenants" doc:"Tenants whose jobs run in this pool only; at most 100."`
	TenantCount      int              `json:"tenant_count" doc:"How many tenants are bound to the pool."`
}

// PoolNodes counts the nodes of a pool.
type PoolNodes struct {
	Total  int `json:"total" doc:"Registered nodes, silent ones included."`
	Online int `json:"online" doc:"Nodes with a recent heartbeat."`
	Ready  int `json:"ready" doc:"Online nodes that may get jobs while they have a free slot."`
}

// PoolSlots counts the slots of a pool.
type PoolSlots struct {
	Total int `json:"total" doc:"Slots of the ready nodes that may be granted."`
	Used  int `json:"used" doc:"Slots of the ready nodes that are taken, by jobs of any pool."`
}

// PoolCoreServices counts the nodes of a pool by the stages of the pipeline that they have.
type PoolCoreServices struct {
	ASR StageCount `json:"asr"`
	NMT StageCount `json:"nmt"`
	TTS StageCount `json:"tts"`
}

// StageCount counts the online nodes that have a stage of the pipeline.
type StageCount struct {
	Installed int `json:"installed" doc:"Nodes that declare a service of this type, whatever its status, or that have the stage without declaring services of this type."`
	Ready     int `json:"ready" doc:"Of these, the ones on which such a service is ready and not marked as unavailable, or that declare none. Whether the node gets jobs does not matter."`
}

// PoolNode is an example of the nodes of a pool.
type PoolNode struct {
	NodeID string `json:"node_id"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty" doc:"Why it gets no jobs, as in an explanation."`
}

// WithoutPool has the nodes that belong to no pool.
type WithoutPool struct {
	Nodes    PoolNodes         `json:"nodes"`
	Examples []NodeWithoutPool `json:"examples" doc:"Some of them, at most 5."`
}

// NodeWithoutPool is a node that belongs to no pool.
type NodeWithoutPool struct {
	NodeID string `json:"node_id"`
	Online bool   `json:"online"`
	PoolGap
}

// PoolGap says why a node belongs to no capability pool.
type PoolGap struct {
	ClosestPool    string `json:"closest_pool,omitempty" doc:"The pool that its credential names, or else the one of which it lacks the fewest services. A caller of one tenant sees only that of a credential."`
	MissingService string `json:"missing_service,omitempty" doc:"A service of this pool that the node has not installed. Absent beside a pool: its credential names a pool that does not exist."`
	ByCredential   bool   `json:"by_credential,omitempty" doc:"The pool is the one that its credential names."`
}

// ExplainPool is one capability pool of an ExplainResponse. Its nodes are counted as if the job might run there.
type ExplainPool struct {
	PoolID   string `json:"pool_id" doc:"Empty: the nodes that belong to no pool."`
	Eligible bool   `json:"eligible" doc:"The job is tried in this pool before it is tried in those that are not eligible."`
	Fallback bool   `json:"fallback,omitempty" doc:"It is not eligible, and the job may run there if no eligible pool has a free slot."`
	// Why and Service are absent for an eligible pool.
	Why     string `json:"why,omitempty" enum:"tenant_bound,service_not_required,no_pool" doc:"Why it is not eligible: the tenant is bound to another pool; with the scope all_required, the pool does not require a service that the job does; or its nodes belong to no pool."`
	Service string `json:"service,omitempty" doc:"The service that the job requires and the pool does not."`
	Nodes   int    `json:"nodes" doc:"Registered nodes of the pool, silent ones included."`
	Capable int    `json:"capable" doc:"Those that could do the job, now or later."`
	Free    int    `json:"free" doc:"Those that could take it now."`
	Reason  string `json:"reason,omitempty" doc:"If no node is free, the most frequent reason, as in the metric phase3_pool_attempt_total."`
}
