package wire

import "encoding/json"

// DispatchRequest is the body of POST /v1/dispatch/f2f and of POST /v1/dispatch/explain.
type DispatchRequest struct {
	RequestID string          `json:"request_id,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$" doc:"Idempotency key: the same key gives the same job. Absent: the scheduler generates one."`
	TenantID  string          `json:"tenant_id,omitempty"`
	SessionID string          `json:"session_id" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$"`
	SrcLang   string          `json:"src_lang" doc:"The spoken language, as a BCP-47 tag."`
	TgtLang   string          `json:"tgt_lang" doc:"The target language, as a BCP-47 tag."`
	AudioRef  string          `json:"audio_ref,omitempty" maxLength:"2048" doc:"Where the node finds the audio. Passed to the node unchanged."`
	Options   DispatchOptions `json:"options,omitzero"`
}

// DispatchOptions are the requirements of a job beyond its direction.
type DispatchOptions struct {
	RequireTTS       bool     `json:"require_tts,omitempty" doc:"The node must speak the target language. In a session the same as tts."`
	PreferredNodeID  *string  `json:"preferred_node_id,omitempty" nullable:"true" doc:"A node to try first."`
	Strict           bool     `json:"strict,omitempty" doc:"The preferred node or none."`
	RequiredServices []string `json:"required_services,omitempty" doc:"Services that the node must have: an id, or an id and the acceptable versions, such as asr-large@2.1, nmt@>=3 or nmt@>=3,<4. At most 32 different ones."`
	RequiredModels   []string `json:"required_models,omitempty" doc:"Models that the node must have, in the same form. At most 32 different ones. A node declares a model as an id, or as an id, an @ and its version."`
	Features         []string `json:"features,omitempty"`
	Region           string   `json:"region,omitempty" doc:"Only nodes of this region."`
	MaxWaitMS        *int64   `json:"max_wait_ms,omitempty" minimum:"0" maximum:"60000" doc:"How long the job may wait for a slot while every capable node is full. Absent: a dispatch does not wait, an utterance of a session waits for scheduler.sessions.wait_ms."`
	PreferredRegion  string   `json:"preferred_region,omitempty" doc:"Nodes of this region first; else any. Capability pools that are eligible come before others, whatever the region."`
}

// DispatchResponse names the node that a job was delivered to. It is sent after delivery, before the node's
// acknowledgement.
type DispatchResponse struct {
	JobID     string `json:"job_id"`
	NodeID    string `json:"node_id"`
	AttemptID int    `json:"attempt_id"`
}

// ExplainResponse is the result of a simulated dispatch, node by node. Nothing is reserved.
type ExplainResponse struct {
	SrcLang   string         `json:"src_lang"`
	TgtLang   string         `json:"tgt_lang"`
	Verdict   string         `json:"verdict" doc:"OK, or the error code that a dispatch would get. ALL_CANDIDATES_FULL_OR_FAILED: with options.max_wait_ms it would wait."`
	Detail    string         `json:"detail"`
	Reasons   map[string]int `json:"reasons" doc:"How many candidates were rejected, by reason."`
	Nodes     []ExplainNode  `json:"nodes"`
	Truncated bool           `json:"truncated" doc:"There are more nodes than are listed."`
	// RequiredServices are absent without a ModelHub.
	RequiredServices []CatalogService `json:"required_services,omitempty" doc:"The services that the job requires, as the ModelHub lists them. Absent without a ModelHub."`
	// The next fields are absent without capability pools.
	BoundPool      string        `json:"bound_pool,omitempty" doc:"The capability pool to which the tenant is bound: the job runs nowhere else."`
	Pools          []ExplainPool `json:"pools,omitempty" doc:"The capability pools, the eligible ones first; at most 50. Who has access to one tenant sees only those that are eligible and have nodes for it. Absent without pools."`
	PoolsTruncated bool          `json:"pools_truncated,omitempty" doc:"There are more pools than are listed."`
	Wait           *ExplainWait  `json:"wait,omitempty" doc:"What the wait for a slot would be. Absent: a slot is free, or no node is capable."`
}

// CatalogService is a service as a ModelHub lists it.
type CatalogService struct {
	ServiceID string   `json:"service_id"`
	Listed    bool     `json:"listed" doc:"The ModelHub lists it."`
	Name      string   `json:"name,omitempty"`
	Type      string   `json:"type,omitempty"`
	Versions  []string `json:"versions,omitempty" doc:"The newest first."`
}

// ExplainNode is one node of an ExplainResponse.
type ExplainNode struct {
	NodeID            string `json:"node_id"`
	PoolID            string `json:"pool_id,omitempty" doc:"Its capability pool. Absent: none."`
	Eligible          bool   `json:"eligible"`
	Reason            string `json:"reason,omitempty" doc:"Why the node is rejected."`
	Preference        bool   `json:"preference,omitempty" doc:"The reason is a preference, which is dropped before the dispatch is refused."`
	Fallback          bool   `json:"fallback,omitempty" doc:"Its capability pool is not eligible: it is chosen only if no eligible pool has a free slot."`
	Detail            string `json:"detail,omitempty"`
	InFlight          int    `json:"in_flight"`
	MaxConcurrentJobs int    `json:"max_concurrent_jobs"`

	Admission *Admission `json:"admission,omitempty" doc:"How many of its slots may be granted, because it failed too often. Absent: all."`
	// Services are at most a hundred.
	Services []ExplainService `json:"services,omitempty" doc:"Its services that the job requires, that are not ready, or that are marked as unavailable; at most 100."`
}

// ExplainService is a service of a node in an ExplainResponse.
type ExplainService struct {
	ServiceID     string `json:"service_id"`
	Name          string `json:"name,omitempty" doc:"Its name at the ModelHub."`
	Version       string `json:"version,omitempty" doc:"Its version on the node."`
	LatestVersion string `json:"latest_version,omitempty" doc:"The newest version at the ModelHub."`
	Type          string `json:"type,omitempty"`
	Status        string `json:"status,omitempty" enum:"ready,downloading,verifying,installing,stopped,error" doc:"As the node declares it. Absent: the node does not declare the service."`
	MarkedMS      int64  `json:"marked_ms,omitempty" doc:"How much longer it counts as not ready, because the node reported it as unavailable."`
}

// Assignment is the body of the POST to a node's callback_url.
type Assignment struct {
	JobID      string          `json:"job_id"`
	AttemptID  int             `json:"attempt_id"`
	NodeID     string          `json:"node_id"`
	Epoch      int64           `json:"epoch"`
	SessionID  string          `json:"session_id"`
	SrcLang    string          `json:"src_lang"`
	TgtLang    string          `json:"tgt_lang"`
	AudioRef   string          `json:"audio_ref,omitempty" doc:"Where the audio is. For a job of a session it is a URL that is valid while the attempt lasts."`
	Audio      *Audio          `json:"audio,omitempty" doc:"The format of the audio of a session's job, which is at audio_ref."`
	TTSUpload  string          `json:"tts_upload,omitempty" doc:"Where to PUT the speech, before the result is sent. Absent: no speech is wanted."`
	Options    DispatchOptions `json:"options"`
	DeadlineMS int64           `json:"deadline_ms" doc:"The deadline of the attempt, Unix milliseconds on the scheduler's clock."`
	TimeoutMS  int64           `json:"timeout_ms" doc:"The same as a duration from now, for nodes with another clock."`
	// Traceparent is also sent in the header of this name.
	Traceparent string `json:"traceparent,omitempty" maxLength:"55" doc:"The W3C trace context of the attempt, as in the header of this name. A node that traces continues it; others ignore it."`
	Probe       bool   `json:"probe,omitempty" doc:"A synthetic utterance by which an operator tests this node: a moment of silence, as a data URL in audio_ref. A drained node accepts it, too."`
}

// SignatureHeader is the HTTP header of a callback with its signature, "t=<unix>,v1=<hex>": the HMAC-SHA256, under the
// shared secret, of the time, a dot and the body.
const SignatureHeader = "X-Lingua-Signature"

// NodeSignatureHeader is the same under a key that only this node and the scheduler have: the SHA-256 of the node's node_token in
// hexadecimal, as text.
const NodeSignatureHeader = "X-Lingua-Node-Signature"

// JobAckRequest is the body of POST /v1/job/ack: the node has received the job and will work on it.
type JobAckRequest struct {
	JobID     string `json:"job_id"`
	AttemptID int    `json:"attempt_id"`
	NodeID    string `json:"node_id"`
	Epoch     *int64 `json:"epoch,omitempty" doc:"Checked when present."`
	NodeToken string `json:"node_token,omitempty" maxLength:"128" doc:"The node_token of the registration."`
}

// JobDoneRequest is the body of POST /v1/job/done.
type JobDoneRequest struct {
	JobAckRequest
	Status string          `json:"status,omitempty" doc:"Any value but ok counts as a failure. Default: ok."`
	Reason string          `json:"reason,omitempty" doc:"The reason of a failure."`
	Result json.RawMessage `json:"result,omitempty" doc:"An object such as {text_src, text_tgt}; kept with the job unchanged."`
}

// JobFailRequest is the body of POST /v1/job/fail.
type JobFailRequest struct {
	JobAckRequest
	Status string `json:"status,omitempty"`
	Reason string `json:"reason,omitempty" doc:"The reason of the failure. NODE_BUSY: the node had no free slot; the job loses no attempt."`
}

// Job is the scheduler's record of a job.
type Job struct {
	JobID     string          `json:"job_id"`
	RequestID string          `json:"request_id"`
	SessionID string          `json:"session_id"`
	TenantID  string          `json:"tenant_id,omitempty"`
	SrcLang   string          `json:"src_lang"`
	TgtLang   string          `json:"tgt_lang"`
	State     string          `json:"state" enum:"DISPATCHED,ACKED,RETRYING,DONE,FAILED,CANCELLED"`
	NodeID    string          `json:"node_id" doc:"The node that has the job, or had it last."`
	PoolID    string          `json:"pool_id,omitempty" doc:"The capability pool of the job, which its first placement decided. Absent: none."`
	PoolBound bool            `json:"pool_bound,omitempty" doc:"The job runs in this pool only, because its tenant was bound to it."`
	AttemptID int             `json:"attempt_id"`
	Reason    string          `json:"reason,omitempty" doc:"The reason for which the last attempt or the job ended."`
	Detail    string          `json:"detail,omitempty" doc:"The reason in the node's own words."`
	Result    json.RawMessage `json:"result,omitempty"`
	// ResultWithheld says that there is a result, and that the caller may not read what was said.
	ResultWithheld bool      `json:"result_withheld,omitempty" doc:"There is a result, and the key may not read what was said."`
	Probe          bool      `json:"probe,omitempty" doc:"It is a synthetic utterance through one node, which an operator sent."`
	CreatedMS      int64     `json:"created_ms"`
	UpdatedMS      int64     `json:"updated_ms"`
	DeadlineMS     int64     `json:"deadline_ms"`
	Attempts       []Attempt `json:"attempts"`
}

// Attempt is one attempt in a job's history.
type Attempt struct {
	AttemptID int    `json:"attempt_id"`
	NodeID    string `json:"node_id"`
	StartedMS int64  `json:"started_ms"`
	EndedMS   int64  `json:"ended_ms,omitempty"`
	Reason    string `json:"reason,omitempty" doc:"The reason for which it ended, unless with the result."`
}

// JobList is the answer of GET /v1/jobs.
type JobList struct {
	Jobs       []Job  `json:"jobs"`
	NextCursor string `json:"next_cursor,omitempty" doc:"The cursor of the next page, for the same filters. Absent: this is the last page."`
	SinceMS    int64  `json:"since_ms" doc:"The instances that answered remember all jobs that ended there since then, in Unix milliseconds. Older ones are missing, or some are, and so are those that ended on an instance that is gone."`
	Partial    bool   `json:"partial,omitempty" doc:"Some instances were not asked, or did not answer: jobs that ended there may be missing."`
	// Incomplete names these instances.
	Incomplete []string `json:"incomplete,omitempty" doc:"The instances that could not be asked, or did not answer in time. Absent although the list is partial: not even their names are known."`
}

// JobDetail is the answer of GET /v1/jobs/{id}.
type JobDetail struct {
	Job
	Decisions  []Decision `json:"decisions,omitempty" doc:"How a node was chosen for each attempt, if that was asked for and an instance remembers it."`
	Incomplete []string   `json:"incomplete,omitempty" doc:"The instances that could not be asked for decisions, or did not answer in time."`
}

// JobDecisions is the answer of GET /v1/jobs/{id}/decisions.
type JobDecisions struct {
	Job        *Job       `json:"job,omitempty" doc:"The job, if it has ended and an instance remembers it. It has no result."`
	Decisions  []Decision `json:"decisions" doc:"In their order. An instance remembers its last 20,000."`
	Incomplete []string   `json:"incomplete,omitempty" doc:"The instances that could not be asked, or did not answer in time."`
}

// Decision is how a node was chosen for an attempt of a job.
type Decision struct {
	AttemptID  int            `json:"attempt_id"`
	AtMS       int64          `json:"at_ms" doc:"When, in Unix milliseconds on the clock of the instance."`
	Instance   string         `json:"instance" doc:"The instance that chose the node."`
	NodeID     string         `json:"node_id" doc:"The node that was chosen."`
	PoolID     string         `json:"pool_id,omitempty" doc:"The capability pool of this node. Absent: none."`
	Candidates []Candidate    `json:"candidates" doc:"The nodes that were drawn, in their order; at most 8."`
	Others     map[string]int `json:"others" doc:"How many further nodes were rejected, by reason."`
}

// Candidate is a node that was drawn for a job.
type Candidate struct {
	NodeID string `json:"node_id"`
	Chosen bool   `json:"chosen,omitempty"`
	Reason string `json:"reason,omitempty" doc:"The reason for which it was rejected. Absent, and not chosen: it was not needed."`
}

// CancelResponse is the answer of POST /v1/jobs/{id}/cancel.
type CancelResponse struct {
	OK        bool `json:"ok"`
	Cancelled bool `json:"cancelled" doc:"The job is cancelled. False: it had already ended otherwise."`
	Waited    bool `json:"waited,omitempty" doc:"The request waited for a slot, and gets none: its caller gets the error CANCELLED. If a node was getting it at this moment, it ends as a cancelled job."`
	Job       Job  `json:"job"`
}
