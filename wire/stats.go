package wire

// Stats is the answer of GET /api/v1/stats: a snapshot of the whole fleet, which one instance computes for all.
type Stats struct {
	StatsAge
	GeneratedMS int64  `json:"generated_ms" doc:"When the snapshot was computed, in Unix milliseconds on the clock of the instance that computed it."`
	GeneratedBy string `json:"generated_by" doc:"The incarnation of the instance that computed it."`
	Fence       int64  `json:"fence" doc:"Grows whenever another instance begins to compute snapshots."`

	Nodes     StatsNodes     `json:"nodes"`
	Sessions  int            `json:"sessions" doc:"Sessions that are connected."`
	InFlight  int            `json:"jobs_in_flight"`
	Jobs      StatsJobs      `json:"jobs" doc:"Jobs that ended."`
	Languages StatsLanguages `json:"language_use" doc:"Jobs that ended, by direction."`
	Coverage  StatsCoverage  `json:"coverage" doc:"How many nodes could take a job of a direction now."`
	Compute   StatsCompute   `json:"compute" doc:"What is installed on the nodes."`
	Instances StatsInstances `json:"instances"`
}

// StatsAge is what the answering instance adds to a snapshot.
type StatsAge struct {
	AgeMS int64      `json:"age_ms" doc:"How old the snapshot is."`
	Stale bool       `json:"stale" doc:"It is older than it should be: no instance computes it, or the answering instance cannot read it from the store."`
	Store StatsStore `json:"store"`
}

// StatsNodes counts the registered nodes by their state.
type StatsNodes struct {
	Total        int   `json:"total" doc:"Registered nodes, offline ones included."`
	Ready        int   `json:"ready" doc:"Nodes that may get jobs if they have a free slot."`
	Degraded     int   `json:"degraded"`
	Draining     int   `json:"draining"`
	Ejected      int   `json:"ejected" doc:"Nodes that get no jobs for a while because they failed much more often than others."`
	Disconnected int   `json:"disconnected" doc:"Nodes whose connection was lost a moment ago."`
	Offline      int   `json:"offline" doc:"Nodes that are registered and silent."`
	Connected    int   `json:"connected" doc:"Nodes with a WebSocket."`
	Slots        int   `json:"slots" doc:"Slots of the ready nodes."`
	UsedSlots    int   `json:"used_slots" doc:"Of these, the ones in use, as far as the instance that computed it has learned in the last 15 s."`
	CountedMS    int64 `json:"counted_ms" doc:"When the nodes were counted, for this and for coverage and compute, in Unix milliseconds. In a very large fleet they are counted less often than the snapshot is computed."`
}

// StatsJobs has the jobs that ended in three periods, which all end now.
type StatsJobs struct {
	Last5m   StatsOutcomes `json:"last_5m"`
	LastHour StatsOutcomes `json:"last_hour"`
	LastDay  StatsOutcomes `json:"last_day"`
}

// StatsOutcomes counts the jobs that ended in a period.
type StatsOutcomes struct {
	Total    int64            `json:"total"`
	Outcomes map[string]int64 `json:"outcomes" doc:"By their last state: DONE, FAILED, CANCELLED."`
	Reasons  map[string]int64 `json:"reasons" doc:"Those that were not done, by reason."`
}

// StatsLanguages has how often directions were used in three periods, which all end now.
type StatsLanguages struct {
	Last5m   StatsUse `json:"last_5m"`
	LastHour StatsUse `json:"last_hour"`
	LastDay  StatsUse `json:"last_day"`
}

// StatsUse counts the jobs of a period by direction.
type StatsUse struct {
	Directions []DirectionUse `json:"directions" doc:"The most used ones, at most 200, the most used first."`
	Other      int64          `json:"other" doc:"Jobs of all other directions."`
	Total      int64          `json:"total"`
}

// DirectionUse counts the jobs of one direction.
type DirectionUse struct {
	SrcLang string `json:"src_lang"`
	TgtLang string `json:"tgt_lang"`
	Jobs    int64  `json:"jobs"`
}

// StatsCoverage says how many ready nodes there are for each direction that was requested in the last day, or that a node declares, at
// most 200 of them: for all nodes that serve every tenant, for each pool that has nodes for it, and for each tenant that has nodes of its
// own.
type StatsCoverage struct {
	Directions int                 `json:"directions" doc:"How many directions were counted."`
	None       []DirectionCoverage `json:"none" doc:"Directions without a ready node, in a pool or for a tenant if it is named: every request that depends on it is refused. At most 200."`
	One        []DirectionCoverage `json:"one" doc:"Directions with one ready node, in a pool or for a tenant if it is named: none is left if it fails. At most 200."`
	More       []DirectionCoverage `json:"more" doc:"Directions with two ready nodes or more, those with the fewest slots first. Pools are not listed."`
}

// DirectionCoverage counts the nodes of one direction.
type DirectionCoverage struct {
	SrcLang  string `json:"src_lang"`
	TgtLang  string `json:"tgt_lang"`
	PoolID   string `json:"pool_id,omitempty" doc:"Only nodes of this pool are counted."`
	TenantID string `json:"tenant_id,omitempty" doc:"The nodes of this tenant are counted, beside those that serve every tenant."`
	Ready    int    `json:"ready" doc:"Nodes that may get its jobs."`
	Slots    int    `json:"slots" doc:"The slots of these nodes."`
}

// StatsCompute says what is installed on the nodes.
type StatsCompute struct {
	Services      []ServiceUse `json:"services" doc:"The most installed ones, at most 200."`
	OtherServices int          `json:"other_services" doc:"How many others there are."`
	Models        []ModelUse   `json:"models" doc:"The most installed ones, at most 200."`
	OtherModels   int          `json:"other_models" doc:"How many others there are."`
	// NotInstalled and OtherNotInstalled are absent without a ModelHub.
	NotInstalled      []CatalogService `json:"not_installed,omitempty" doc:"Services that the ModelHub lists and no node has, at most 200. Absent without a ModelHub."`
	OtherNotInstalled int              `json:"other_not_installed,omitempty" doc:"How many others there are."`
}

// ServiceUse counts the nodes that have a version of a service.
type ServiceUse struct {
	ServiceID string `json:"service_id"`
	Version   string `json:"version,omitempty"`
	Type      string `json:"type,omitempty"`
	Installed int    `json:"installed" doc:"Nodes on which it is installed, whatever its status."`
	Ready     int    `json:"ready" doc:"Nodes on which it is ready and that may get jobs."`
	Slots     int    `json:"slots" doc:"The slots of these nodes."`
	// Name and LatestVersion are absent if the ModelHub does not list the service.
	Name          string `json:"name,omitempty" doc:"The name for people, as the ModelHub lists it."`
	LatestVersion string `json:"latest_version,omitempty" doc:"The newest version that the ModelHub lists."`
}

// ModelUse counts the nodes that have a model.
type ModelUse struct {
	ModelID   string `json:"model_id"`
	Installed int    `json:"installed"`
	Ready     int    `json:"ready" doc:"Of these, the ones that may get jobs."`
	Slots     int    `json:"slots" doc:"The slots of these nodes."`
}

// StatsInstances counts the scheduler processes.
type StatsInstances struct {
	Present     int `json:"present"`
	Draining    int `json:"draining"`
	Absent      int `json:"absent" doc:"Instances that are gone and have left something behind."`
	DeadLetters int `json:"dead_letters" doc:"Messages between instances that could not be handled, of all instances. They are counted about every 20 s."`
}

// StatsStore is the state of the store, as the answering instance sees it.
type StatsStore struct {
	Kind      string `json:"kind" enum:"memory,redis"`
	Reachable bool   `json:"reachable" doc:"The answering instance can use it, as the calls of the last moment found."`
}
