package wire

// DispatchRequest is the body of POST /v1/dispatch/f2f and of POST /v1/dispatch/explain.
type DispatchRequest struct {
	RequestID string          `json:"request_id,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$" doc:"Idempotency key: the same one gives the same job. One is made if it is absent."`
	TenantID  string          `json:"tenant_id,omitempty"`
	SessionID string          `json:"session_id" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$"`
	SrcLang   string          `json:"src_lang" doc:"BCP-47 tag of what was spoken."`
	TgtLang   string          `json:"tgt_lang" doc:"BCP-47 tag of what is wanted."`
	AudioRef  string          `json:"audio_ref,omitempty" maxLength:"2048" doc:"Where the node finds the audio. Passed on to the node as it is."`
	Options   DispatchOptions `json:"options,omitzero"`
}

// DispatchOptions is what a job asks for beyond its direction.
type DispatchOptions struct {
	RequireTTS       bool     `json:"require_tts,omitempty" doc:"The node must speak the target language."`
	PreferredNodeID  *string  `json:"preferred_node_id,omitempty" nullable:"true" doc:"A node to try first."`
	Strict           bool     `json:"strict,omitempty" doc:"The preferred node or none."`
	RequiredServices []string `json:"required_services,omitempty"`
	RequiredModels   []string `json:"required_models,omitempty"`
	Features         []string `json:"features,omitempty"`
	Region           string   `json:"region,omitempty" doc:"Only nodes of this region."`
}

// DispatchResponse says who has the job. It is sent when the job was delivered, not when the node
// confirmed it.
type DispatchResponse struct {
	JobID     string `json:"job_id"`
	NodeID    string `json:"node_id"`
	AttemptID int    `json:"attempt_id"`
}

// ExplainResponse says, node by node, what would become of a dispatch. Nothing is reserved.
type ExplainResponse struct {
	SrcLang   string         `json:"src_lang"`
	TgtLang   string         `json:"tgt_lang"`
	Verdict   string         `json:"verdict" doc:"OK, or the code a dispatch would be refused with."`
	Detail    string         `json:"detail"`
	Reasons   map[string]int `json:"reasons" doc:"How many nodes were passed over, by reason."`
	Nodes     []ExplainNode  `json:"nodes"`
	Truncated bool           `json:"truncated" doc:"There are more nodes than are listed."`
}

// ExplainNode is one node's part of an explanation.
type ExplainNode struct {
	NodeID            string `json:"node_id"`
	Eligible          bool   `json:"eligible"`
	Reason            string `json:"reason,omitempty" doc:"What speaks against it."`
	Preference        bool   `json:"preference,omitempty" doc:"The reason is a preference, which yields before a refusal."`
	Detail            string `json:"detail,omitempty"`
	InFlight          int    `json:"in_flight"`
	MaxConcurrentJobs int    `json:"max_concurrent_jobs"`
}

// Assignment is what is POSTed to a node's callback_url.
type Assignment struct {
	JobID      string          `json:"job_id"`
	AttemptID  int             `json:"attempt_id"`
	NodeID     string          `json:"node_id"`
	Epoch      int64           `json:"epoch"`
	SessionID  string          `json:"session_id"`
	SrcLang    string          `json:"src_lang"`
	TgtLang    string          `json:"tgt_lang"`
	AudioRef   string          `json:"audio_ref,omitempty" doc:"Where the audio is. Of a session's job it is an address that can be used while the attempt lasts."`
	Audio      *Audio          `json:"audio,omitempty" doc:"What the audio of a session's job is; audio_ref says where."`
	TTSUpload  string          `json:"tts_upload,omitempty" doc:"Where to PUT the spoken result, before the result, if it is wanted."`
	Options    DispatchOptions `json:"options"`
	DeadlineMS int64           `json:"deadline_ms" doc:"When the attempt is over, Unix milliseconds on the scheduler's clock."`
	TimeoutMS  int64           `json:"timeout_ms" doc:"The same as a duration from now, for a node whose clock may differ."`
}

// SignatureHeader carries "t=<unix>,v1=<hex>": the HMAC-SHA256, under the shared secret, of the time, a dot
// and the body.
const SignatureHeader = "X-Lingua-Signature"
