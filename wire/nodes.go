package wire

// Declaration is what a node declares about itself: capabilities, limits and health. In a heartbeat an absent field is
// unchanged.
type Declaration struct {
	Health            string            `json:"health,omitempty" enum:"ready,degraded,draining,offline" doc:"Only a ready node gets jobs. Default: ready."`
	ASRLangs          []string          `json:"asr_langs,omitzero" doc:"Languages it recognises, as BCP-47 tags. Absent: every semantic language."`
	SemanticLangs     []string          `json:"semantic_langs,omitzero" doc:"Languages of its semantic repair. Required at registration, never empty: a source language must be one of them."`
	NMTPairs          [][]string        `json:"nmt_pairs,omitzero" doc:"[source, target] pairs that it translates. Absent: from any semantic language to any language that it has an output for."`
	TTSLangs          []string          `json:"tts_langs,omitzero" doc:"Languages it speaks."`
	CapabilityByType  *CapabilityByType `json:"capability_by_type,omitempty" doc:"The types of services that run. Absent: derived from the lists."`
	InstalledModels   []string          `json:"installed_models,omitzero" doc:"Installed models, each as an id, or as an id, an @ and a version. An id contains none of @ , < > =."`
	InstalledServices []Service         `json:"installed_services,omitzero" doc:"Installed service packages."`
	CapabilityState   map[string]string `json:"capability_state,omitempty" doc:"The status of installed services by service_id: ready, downloading, verifying, installing, stopped or error. It takes precedence over installed_services; services that are not named are unchanged."`
	Features          []string          `json:"features,omitzero" doc:"Further features that a job may require."`
	MaxConcurrentJobs *int              `json:"max_concurrent_jobs,omitempty" minimum:"0" maximum:"10000" doc:"The number of slots. 1 unless given, with a warning."`
	CurrentJobs       *int              `json:"current_jobs,omitempty" minimum:"0" doc:"All jobs that it runs, including those of other schedulers."`
	CurrentLoad       *Load             `json:"current_load,omitempty" doc:"The load of its machine."`
	Region            *string           `json:"region,omitempty" doc:"The region of the node."`
	Zone              *string           `json:"zone,omitempty" doc:"The zone within the region."`
	TenantID          *string           `json:"tenant_id,omitempty" doc:"The tenant that owns the node. Absent: the node serves every tenant."`
	CallbackURL       *string           `json:"callback_url,omitempty" format:"uri" doc:"The URL to which jobs are POSTed."`
	Active            []ActiveAttempt   `json:"active,omitzero" doc:"Every job that it received and whose outcome is not acknowledged. Absent is not empty: without a list the scheduler does not reconcile jobs."`
}

// CapabilityByType tells which types of services a node runs.
type CapabilityByType struct {
	ASR      *bool `json:"asr,omitempty"`
	NMT      *bool `json:"nmt,omitempty"`
	TTS      *bool `json:"tts,omitempty"`
	Tone     *bool `json:"tone,omitempty"`
	Semantic *bool `json:"semantic,omitempty"`
}

// Service is an installed service package.
type Service struct {
	ServiceID string `json:"service_id" doc:"It contains none of @ , < > =."`
	Version   string `json:"version,omitempty"`
	Type      string `json:"type,omitempty"`
	Status    string `json:"status" enum:"ready,downloading,verifying,installing,stopped,error"`
}

// Load is the utilization of a machine, each value from 0 to 1; absent is unknown.
type Load struct {
	CPU    *float64 `json:"cpu,omitempty" minimum:"0" maximum:"1"`
	GPU    *float64 `json:"gpu,omitempty" minimum:"0" maximum:"1"`
	Memory *float64 `json:"memory,omitempty" minimum:"0" maximum:"1"`
}

// ActiveJob is one attempt of one job.
type ActiveJob struct {
	JobID     string `json:"job_id"`
	AttemptID int    `json:"attempt_id"`
}

// ActiveAttempt is one entry of a node's list of active jobs.
type ActiveAttempt struct {
	ActiveJob
	AudioChunks int `json:"audio_chunks,omitempty" minimum:"0" doc:"How many chunks of its audio were received in binary frames, without a gap from the first. After a reconnect the scheduler sends the rest, or all of it if this is absent."`
}

// RegisterRequest is the body of POST /v1/node/register.
type RegisterRequest struct {
	NodeID    string `json:"node_id,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$" doc:"The node's id. Absent: the scheduler generates one."`
	NodeToken string `json:"node_token,omitempty" maxLength:"128" doc:"The node_token of its registration, needed while the node is present. One of 16 to 128 random characters that a node chooses for its first registration makes that repeatable."`
	Declaration
}

// RegisterResponse is the answer of POST /v1/node/register.
type RegisterResponse struct {
	OK                  bool        `json:"ok"`
	NodeID              string      `json:"node_id"`
	Epoch               int64       `json:"epoch" doc:"The epoch that this registration began. A later message may carry it, and is then refused if the node has registered again since."`
	NodeToken           string      `json:"node_token" doc:"The secret of the node: send it with every report, and to register again."`
	HeartbeatIntervalMS int64       `json:"heartbeat_interval_ms" doc:"The interval of heartbeats, to be jittered by a fifth."`
	Cancel              []ActiveJob `json:"cancel,omitempty" doc:"Active jobs that the node should stop."`
	Warnings            []string    `json:"warnings,omitempty" doc:"What the author of the node should change: why it gets no jobs although it is registered, fields that are not known, or that are missing and have a default."`
}

// HeartbeatRequest is the body of POST /v1/node/heartbeat.
type HeartbeatRequest struct {
	NodeID    string  `json:"node_id" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$"`
	Epoch     *int64  `json:"epoch,omitempty" doc:"The epoch of the registration."`
	HBSeq     *uint64 `json:"hb_seq,omitempty" minimum:"1" doc:"The number of the heartbeat, from 1. A heartbeat that arrives after a later one is ignored."`
	NodeToken string  `json:"node_token,omitempty" maxLength:"128" doc:"The node_token of the registration."`
	Declaration
}

// HeartbeatResponse is the answer of POST /v1/node/heartbeat.
type HeartbeatResponse struct {
	OK     bool        `json:"ok"`
	Cancel []ActiveJob `json:"cancel" doc:"Jobs that the node should stop."`
	// Epoch and NodeToken are those of the registration, if the heartbeat registered the node.
	Epoch     int64  `json:"epoch,omitempty" doc:"The epoch that this heartbeat began, because the node was not registered."`
	NodeToken string `json:"node_token,omitempty" doc:"The node_token of this registration."`
	// Warnings are what the author of the node should change.
	Warnings []string `json:"warnings,omitempty" doc:"What the author of the node should change: heartbeats that come too seldom."`
}

// ModelNotAvailableRequest is the body of POST /v1/node/model_not_available.
type ModelNotAvailableRequest struct {
	NodeID    string `json:"node_id"`
	ServiceID string `json:"service_id"`
	Version   string `json:"version,omitempty" doc:"The version that is unavailable. Absent: all versions."`
	Reason    string `json:"reason,omitempty" doc:"Why: not_installed, installing, version_mismatch, runtime_error, state_drift, or a text that is normalised to one of these or to other."`
	JobID     string `json:"job_id,omitempty" doc:"The job that failed because of it, if any: it is retried on another node."`
	AttemptID int    `json:"attempt_id,omitempty"`
	NodeToken string `json:"node_token,omitempty" maxLength:"128" doc:"The node_token of the registration."`
}

// OKResponse confirms a request without further content.
type OKResponse struct {
	OK bool `json:"ok"`
}

// NodeRemoved is the answer to the removal of a node.
type NodeRemoved struct {
	NodeID    string   `json:"node_id"`
	MovedJobs int      `json:"moved_jobs" doc:"Jobs that the node had and that are given to other nodes."`
	Warnings  []string `json:"warnings,omitempty" doc:"Why the node may come back."`
}

// NodeCapabilities is what a node can do, as part of Node.
type NodeCapabilities struct {
	ASRLangs          []string          `json:"asr_langs,omitzero"`
	SemanticLangs     []string          `json:"semantic_langs"`
	NMTPairs          [][]string        `json:"nmt_pairs,omitzero"`
	TTSLangs          []string          `json:"tts_langs,omitzero"`
	CapabilityByType  *CapabilityByType `json:"capability_by_type,omitempty"`
	InstalledModels   []string          `json:"installed_models,omitzero"`
	InstalledServices []Service         `json:"installed_services,omitzero"`
	Features          []string          `json:"features,omitzero"`
}

// Node is the scheduler's view of a node.
type Node struct {
	NodeID            string `json:"node_id"`
	Epoch             int64  `json:"epoch"`
	Online            bool   `json:"online" doc:"It was seen recently and is not known to be disconnected for good."`
	Health            string `json:"health" doc:"The effective health: draining if an operator drained the node, whatever it declares."`
	Drained           bool   `json:"drained" doc:"An operator drained the node: it gets no new jobs."`
	Disconnected      bool   `json:"disconnected,omitempty" doc:"Its connection is lost and within the grace period: it keeps its jobs and gets no new ones."`
	SilentSinceMS     int64  `json:"silent_since_ms,omitempty" doc:"Since when nothing has come over its connection although it has a job, Unix milliseconds on the clock of the store. It counts as disconnected until something comes."`
	Held              bool   `json:"held,omitempty" doc:"It registered anew without a list of jobs: it gets none for the time of one attempt, in case it is still busy."`
	SetAsideMS        int64  `json:"set_aside_ms,omitempty" doc:"How long the answering instance prefers other nodes, because this one did not acknowledge deliveries, or says nothing about its jobs."`
	MaxConcurrentJobs int    `json:"max_concurrent_jobs" doc:"The slots that the node declares."`

	Admission *Admission `json:"admission,omitempty" doc:"How many of its slots may be granted, because it failed too often. Absent: all."`

	Reserved        int   `json:"reserved" doc:"Slots of jobs that the node has not acknowledged."`
	Running         int   `json:"running" doc:"Slots of jobs that the node has acknowledged."`
	Foreign         int   `json:"foreign" doc:"Jobs that the node reports and that are not from this scheduler."`
	EffectiveLoad   int   `json:"effective_load" doc:"reserved + running + foreign, which counts against max_concurrent_jobs."`
	CurrentLoad     *Load `json:"current_load,omitempty"`
	LastHeartbeatMS int64 `json:"last_heartbeat_ms" doc:"When it was last seen, Unix milliseconds."`
	NodeCapabilities
	Region      string `json:"region,omitempty"`
	Zone        string `json:"zone,omitempty"`
	TenantID    string `json:"tenant_id,omitempty"`
	CallbackURL string `json:"callback_url,omitempty" doc:"Without its query."`
	Incarnation string `json:"incarnation,omitempty" doc:"The incarnation of the instance that it is connected to."`
	// PoolID and NoPool are absent without capability pools.
	PoolID string   `json:"pool_id,omitempty" doc:"The capability pool of the node."`
	NoPool *PoolGap `json:"no_pool,omitempty" doc:"Why the node belongs to no pool although there are pools."`
	NodeDetail
}

// Admission limits the slots of a node that may be granted. It is decided for all instances, and outlasts registrations.
type Admission struct {
	Slots   int    `json:"slots" doc:"How many slots may be granted, at most max_concurrent_jobs. 0: the node is ejected, it keeps its jobs and gets no new ones."`
	Reason  string `json:"reason" enum:"failing,ack_timeouts,silent" doc:"Its jobs failed much more often than those of other nodes; it did not acknowledge them; or it acknowledged them and sent no results."`
	SinceMS int64  `json:"since_ms,omitempty" doc:"When it was decided, Unix milliseconds."`
	UntilMS int64  `json:"until_ms,omitempty" doc:"Until when it is meant to last, Unix milliseconds. Then more slots are admitted, step by step. Absent: nothing is planned."`
	Times   int    `json:"times" doc:"How many times in a row the node was ejected."`
}

// NodeList is the answer of GET /v1/nodes.
type NodeList struct {
	Nodes      []Node `json:"nodes"`
	NextCursor string `json:"next_cursor,omitempty" doc:"The cursor of the next page, for the same filters. Absent: this is the last page."`
}

// RefusedNodeList is the answer of GET /v1/nodes/refused.
type RefusedNodeList struct {
	Refused []RefusedNode `json:"refused" doc:"The latest first, at most 200."`
	Partial bool          `json:"partial,omitempty" doc:"An instance could not be asked, or did not answer."`
}

// RefusedNode is registrations or connections of nodes that were refused for one reason, from one address.
type RefusedNode struct {
	Address  string `json:"address"`
	Reason   Code   `json:"reason" doc:"The error code with which it was refused."`
	Field    string `json:"field,omitempty" doc:"The field that was wrong, or missing."`
	Advice   string `json:"advice" doc:"What to change."`
	NodeID   string `json:"node_id,omitempty" doc:"The last valid name that came from there."`
	Count    int    `json:"count"`
	FirstMS  int64  `json:"first_ms" doc:"The first one that is counted, Unix milliseconds."`
	LastMS   int64  `json:"last_ms" doc:"The last one, Unix milliseconds."`
	Instance string `json:"instance" doc:"The instance that refused it, by its incarnation."`
}

// Direction is one direction with its nodes and slots.
type Direction struct {
	SrcLang  string `json:"src_lang"`
	TgtLang  string `json:"tgt_lang"`
	Nodes    int    `json:"nodes" doc:"Nodes that serve the direction, whatever their health."`
	Ready    int    `json:"ready" doc:"Those that can get jobs now."`
	Capacity int    `json:"capacity" doc:"Slots of the ready nodes that may be granted."`
	InFlight int    `json:"in_flight" doc:"Slots of the ready nodes that are taken, by jobs of any direction."`
	Free     int    `json:"free" doc:"Slots of the ready nodes that are not taken."`

	Uncovered []CoverGroup `json:"uncovered,omitempty" doc:"The pools, and the tenants with nodes of their own, that have nodes for the direction and no ready one. Absent: none."`

	// The fields below are absent without statistics, and for a caller of one tenant: they count the requests of all.
	Jobs5m    *int64 `json:"jobs_5m,omitempty" doc:"Jobs that ended in the last 5 minutes. This and the fields below are of all instances, some 10 s old, and absent without statistics and for a caller of one tenant."`
	Refused5m *int64 `json:"refused_5m,omitempty" doc:"Requests that were refused in the last 5 minutes."`
	Waiting   *int64 `json:"waiting,omitempty" doc:"Requests that wait for a free slot now."`
	WaitP95MS *int64 `json:"wait_p95_ms,omitempty" doc:"How long at most 95 % of the requests of the last 5 minutes waited for a free slot, those that were refused included. Absent: there were none."`
}

// CoverGroup is a set of nodes on which jobs depend.
type CoverGroup struct {
	PoolID   string `json:"pool_id,omitempty" doc:"Nodes of this pool; absent: of all pools."`
	TenantID string `json:"tenant_id,omitempty" doc:"Nodes that serve this tenant; absent: that serve every tenant."`
}

// DirectionList is the answer of GET /v1/directions.
type DirectionList struct {
	Directions []Direction `json:"directions"`
	Truncated  bool        `json:"truncated" doc:"There are further directions."`
	NextCursor string      `json:"next_cursor,omitempty" doc:"The cursor of the next page, for the same filters. Absent: this is the last page."`
}
