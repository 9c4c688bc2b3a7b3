package wire

// Declaration is what a node says it can do. In a heartbeat an absent field is unchanged.
type Declaration struct {
	Health            string            `json:"health,omitempty" enum:"ready,degraded,draining,offline" doc:"Only a ready node is given work. Default: ready."`
	ASRLangs          []string          `json:"asr_langs,omitzero" doc:"Languages it recognises, as BCP-47 tags. Absent: every semantic language."`
	SemanticLangs     []string          `json:"semantic_langs,omitzero" doc:"Languages it can repair. Required at registration, never empty: a source language must be one of them."`
	NMTPairs          [][]string        `json:"nmt_pairs,omitzero" doc:"[source, target] pairs it translates. Absent: from any of its semantic languages to any it has an output for."`
	TTSLangs          []string          `json:"tts_langs,omitzero" doc:"Languages it speaks."`
	CapabilityByType  *CapabilityByType `json:"capability_by_type,omitempty" doc:"Which kinds of service run. Absent: derived from the lists."`
	InstalledModels   []string          `json:"installed_models,omitzero" doc:"Ids of installed models."`
	InstalledServices []Service         `json:"installed_services,omitzero" doc:"Installed service packages."`
	CapabilityState   map[string]string `json:"capability_state,omitempty" doc:"The status of installed services by service_id: ready, downloading, verifying, installing, stopped or error. It wins over installed_services; what it leaves out is unchanged."`
	Features          []string          `json:"features,omitzero" doc:"Further features a job may require."`
	MaxConcurrentJobs *int              `json:"max_concurrent_jobs,omitempty" minimum:"0" maximum:"10000" doc:"How many jobs it takes at once. Required at registration."`
	CurrentJobs       *int              `json:"current_jobs,omitempty" minimum:"0" doc:"Everything it is running, also what did not come from this scheduler."`
	CurrentLoad       *Load             `json:"current_load,omitempty" doc:"How busy its machine is."`
	Region            *string           `json:"region,omitempty" doc:"Where it stands."`
	Zone              *string           `json:"zone,omitempty" doc:"Where in the region it stands."`
	TenantID          *string           `json:"tenant_id,omitempty" doc:"Whose it is. Absent: it serves every tenant."`
	CallbackURL       *string           `json:"callback_url,omitempty" format:"uri" doc:"Where jobs are POSTed to."`
	Active            []ActiveAttempt   `json:"active,omitzero" doc:"Every job it has received and whose result is not yet acknowledged. Absent is not empty: a node that never lists says nothing about its jobs."`
}

// CapabilityByType says which kinds of service a node runs.
type CapabilityByType struct {
	ASR      *bool `json:"asr,omitempty"`
	NMT      *bool `json:"nmt,omitempty"`
	TTS      *bool `json:"tts,omitempty"`
	Tone     *bool `json:"tone,omitempty"`
	Semantic *bool `json:"semantic,omitempty"`
}

// Service is an installed service package.
type Service struct {
	ServiceID string `json:"service_id"`
	Version   string `json:"version,omitempty"`
	Type      string `json:"type,omitempty"`
	Status    string `json:"status" enum:"ready,downloading,verifying,installing,stopped,error"`
}

// Load is how busy a machine is, each from 0 to 1; absent is unknown.
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

// ActiveAttempt is one line of a node's list of the jobs it has in hand.
type ActiveAttempt struct {
	ActiveJob
	AudioChunks int `json:"audio_chunks,omitempty" minimum:"0" doc:"How many chunks of its audio have come in binary frames, without a gap from the first. When a node connects again the rest is sent, all of it where this is absent."`
}

// RegisterRequest is the body of POST /v1/node/register.
type RegisterRequest struct {
	NodeID string `json:"node_id,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$" doc:"The node's name; one is made if it is absent."`
	Declaration
}

// RegisterResponse is its answer.
type RegisterResponse struct {
	OK                  bool        `json:"ok"`
	NodeID              string      `json:"node_id"`
	Epoch               int64       `json:"epoch" doc:"The life of the node that this registration began. May be sent back in later messages, which are then refused if the node has registered again since."`
	HeartbeatIntervalMS int64       `json:"heartbeat_interval_ms" doc:"How often the node should send a heartbeat, give or take a fifth."`
	Cancel              []ActiveJob `json:"cancel,omitempty" doc:"Jobs of its list that the node should stop."`
	Warnings            []string    `json:"warnings,omitempty" doc:"What keeps the node from being given work, although it is registered."`
}

// HeartbeatRequest is the body of POST /v1/node/heartbeat.
type HeartbeatRequest struct {
	NodeID string  `json:"node_id" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$"`
	Epoch  *int64  `json:"epoch,omitempty" doc:"As answered at registration."`
	HBSeq  *uint64 `json:"hb_seq,omitempty" doc:"Counts the node's heartbeats from 1: one that was overtaken by a later one changes nothing."`
	Declaration
}

// HeartbeatResponse is its answer.
type HeartbeatResponse struct {
	OK     bool        `json:"ok"`
	Cancel []ActiveJob `json:"cancel" doc:"Jobs the node should stop."`
}

// ModelNotAvailableRequest is the body of POST /v1/node/model_not_available.
type ModelNotAvailableRequest struct {
	NodeID    string `json:"node_id"`
	ServiceID string `json:"service_id"`
	Version   string `json:"version,omitempty"`
	Reason    string `json:"reason,omitempty"`
	JobID     string `json:"job_id,omitempty" doc:"The job that failed for it, if one did: it is retried on another node."`
	AttemptID int    `json:"attempt_id,omitempty"`
}

// OKResponse says that it was done.
type OKResponse struct {
	OK bool `json:"ok"`
}

// Node is a node as the scheduler sees it.
type Node struct {
	NodeID            string            `json:"node_id"`
	Epoch             int64             `json:"epoch"`
	Online            bool              `json:"online" doc:"It was heard lately, and is not known to be gone."`
	Health            string            `json:"health" doc:"What counts: draining when the operator drained it, whatever it says of itself."`
	Drained           bool              `json:"drained" doc:"An operator asked that it gets nothing new."`
	Disconnected      bool              `json:"disconnected,omitempty" doc:"Its connection was lost and is awaited: its jobs go on, and it gets no others."`
	Held              bool              `json:"held,omitempty" doc:"It came back unknown and does not list its jobs: it gets nothing for the time of one attempt, in case it is still busy."`
	SetAsideMS        int64             `json:"set_aside_ms,omitempty" doc:"For this long the asked scheduler prefers other nodes, because this one did not confirm its jobs."`
	MaxConcurrentJobs int               `json:"max_concurrent_jobs"`
	Reserved          int               `json:"reserved" doc:"Slots promised to jobs the node has not confirmed yet."`
	Running           int               `json:"running" doc:"Slots of jobs the node has confirmed."`
	Foreign           int               `json:"foreign" doc:"Work the node reports that is not this scheduler's."`
	EffectiveLoad     int               `json:"effective_load" doc:"reserved + running + foreign: what counts against the maximum."`
	CurrentLoad       *Load             `json:"current_load,omitempty"`
	LastHeartbeatMS   int64             `json:"last_heartbeat_ms" doc:"When it was last heard, Unix milliseconds."`
	ASRLangs          []string          `json:"asr_langs,omitzero"`
	SemanticLangs     []string          `json:"semantic_langs"`
	NMTPairs          [][]string        `json:"nmt_pairs,omitzero"`
	TTSLangs          []string          `json:"tts_langs,omitzero"`
	CapabilityByType  *CapabilityByType `json:"capability_by_type,omitempty"`
	InstalledModels   []string          `json:"installed_models,omitzero"`
	InstalledServices []Service         `json:"installed_services,omitzero"`
	Features          []string          `json:"features,omitzero"`
	Region            string            `json:"region,omitempty"`
	Zone              string            `json:"zone,omitempty"`
	TenantID          string            `json:"tenant_id,omitempty"`
	CallbackURL       string            `json:"callback_url,omitempty" doc:"Without its query."`
	Incarnation       string            `json:"incarnation,omitempty" doc:"The life of the scheduler with which it is connected by its socket."`
}

// NodeList is the answer of GET /v1/nodes.
type NodeList struct {
	Nodes      []Node `json:"nodes"`
	NextCursor string `json:"next_cursor,omitempty" doc:"There are more: ask again with this as cursor, and the same filters."`
}

// Pool is how well one direction is served.
type Pool struct {
	SrcLang  string `json:"src_lang"`
	TgtLang  string `json:"tgt_lang"`
	Nodes    int    `json:"nodes" doc:"Nodes that serve the direction, whatever their health."`
	Ready    int    `json:"ready" doc:"Those of them that may be given work now."`
	Capacity int    `json:"capacity" doc:"Slots of the ready ones."`
	InFlight int    `json:"in_flight" doc:"Slots of the ready ones that are taken, by jobs of any direction."`
}

// PoolList is the answer of GET /v1/pools.
type PoolList struct {
	Pools      []Pool `json:"pools"`
	Truncated  bool   `json:"truncated" doc:"There are more directions than are listed."`
	NextCursor string `json:"next_cursor,omitempty" doc:"There are more: ask again with this as cursor, and the same filters."`
}
