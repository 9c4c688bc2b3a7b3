package wire

import "encoding/json"

// HealthResponse is the answer of GET /healthz.
type HealthResponse struct {
	Status string `json:"status" enum:"ok"`
}

// ReadyResponse is the answer of GET /readyz, with status 503 if the instance is not ready.
type ReadyResponse struct {
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
}

// VersionResponse is the answer of GET /v1/version.
type VersionResponse struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
}

// InstanceList is the answer of GET /v1/instances.
type InstanceList struct {
	Instances []Instance `json:"instances"`
}

// Instance is one scheduler process of those that share a fleet.
type Instance struct {
	InstanceID   string `json:"instance_id" doc:"Its name, which stays the same after a restart if it is configured."`
	Incarnation  string `json:"incarnation" doc:"This start of the instance."`
	Present      bool   `json:"present" doc:"It was seen within presence_ttl_ms. An instance that is listed and not present has left work behind."`
	This         bool   `json:"this,omitempty" doc:"The instance that answers."`
	Draining     bool   `json:"draining,omitempty"`
	AdvertiseURL string `json:"advertise_url,omitempty" doc:"The URL at which the other instances and all nodes reach it."`
	Version      string `json:"version,omitempty"`
	KeysDigest   string `json:"keys_digest,omitempty" doc:"Identifies the keys and signers that it has in force, without revealing them: instances with the same digest accept the same credentials."`
	StartedMS    int64  `json:"started_ms,omitempty" doc:"Unix milliseconds."`
	Nodes        int    `json:"nodes" doc:"Nodes that are connected to it."`
	Sessions     int    `json:"sessions"`
	Jobs         int    `json:"jobs" doc:"Jobs in flight that it dispatched."`
	Inbox        int    `json:"inbox" doc:"Messages of other instances in its inbox."`
	Pending      int    `json:"unsettled" doc:"Messages that it has fetched and not acknowledged."`
	DeadLetters  int    `json:"dead_letters"`
	Takeovers    int    `json:"takeovers" doc:"From how many dead instances it has taken over since it started."`
}

// ReloadResponse is the answer of POST /v1/config/reload.
type ReloadResponse struct {
	Changed      []string `json:"changed" doc:"What this instance has put in force, such as: key admin changed."`
	NeedsRestart []string `json:"needs_restart" doc:"Keys of the configuration that have changed since the start and that only a restart puts in force."`
	Warnings     []string `json:"warnings,omitempty" doc:"As lingua config check prints them."`
	KeysDigest   string   `json:"keys_digest" doc:"As in GET /v1/instances."`
}

// DeadLetterList is the answer of GET /v1/dlq.
type DeadLetterList struct {
	DeadLetters []DeadLetter `json:"dead_letters"`
	Total       int          `json:"total" doc:"The number of dead letters, listed or not."`
}

// DeadLetter is a message between instances that could not be handled.
type DeadLetter struct {
	ID          string          `json:"id" doc:"Its inbox, a slash, and its number in the inbox."`
	Incarnation string          `json:"incarnation" doc:"The incarnation of the instance whose inbox it was in."`
	Kind        string          `json:"kind,omitempty" doc:"The kind of the message, if it can be decoded."`
	From        string          `json:"from,omitempty"`
	Reason      string          `json:"reason" enum:"NOT_UNDERSTOOD,FAILED"`
	Deliveries  int             `json:"deliveries" doc:"The number of deliveries."`
	AgeMS       int64           `json:"age_ms"`
	Bytes       int             `json:"bytes"`
	Body        json.RawMessage `json:"body,omitempty" doc:"The message, if it is JSON and one dead letter is requested."`
	Text        string          `json:"text,omitempty" doc:"The message, if it is not JSON."`
}

// DeadLettersRequest is the body of POST /v1/dlq/replay and /v1/dlq/purge.
type DeadLettersRequest struct {
	IDs []string `json:"ids,omitempty" doc:"The dead letters."`
	All bool     `json:"all,omitempty" doc:"All dead letters instead."`
}

// DeadLettersResponse is the answer of both.
type DeadLettersResponse struct {
	Done   []string          `json:"done"`
	Failed map[string]string `json:"failed,omitempty" doc:"The dead letters for which it failed, and why."`
}

// EventList is a part of the event log of the fleet.
type EventList struct {
	Events []Event `json:"events"`
	Next   string  `json:"next,omitempty" doc:"The position after the last event that was read: after of the next request. Absent: the log is empty. With order=desc: before of the next request. Absent: there are no older events."`
	Gap    bool    `json:"gap,omitempty" doc:"Events after the given position may have been dropped before they were read."`
}

// Event is something that happened to the fleet.
type Event struct {
	ID       string `json:"id" doc:"Its position in the log."`
	AtMS     int64  `json:"at_ms" doc:"When it happened, Unix milliseconds on the clock of the instance that recorded it."`
	Kind     string `json:"kind" enum:"node_registered,node_lost,node_silent,jobs_moved,node_left,node_removed,node_evicted,node_drained,node_resumed,node_ejected,node_readmitted,instance_started,instance_stopping,takeover,dead_letter,store_down,store_up,stats_leader,pools_changed,service_unavailable,coverage"`
	NodeID   string `json:"node_id,omitempty" doc:"The node that it is about."`
	Instance string `json:"instance" doc:"The instance that recorded it."`
	Jobs     int    `json:"jobs,omitempty" doc:"How many jobs were moved to other nodes."`
	Detail   string `json:"detail,omitempty"`
	// SrcLang, TgtLang and Ready are present in an event about the coverage of a direction.
	SrcLang string `json:"src_lang,omitempty" doc:"The direction that it is about, with tgt_lang. Only of kind coverage."`
	TgtLang string `json:"tgt_lang,omitempty"`
	Ready   *int   `json:"ready,omitempty" doc:"How many ready nodes the direction has. 0: it has lost its last one."`
}

// AuditList is a part of the audit log.
type AuditList struct {
	Entries []AuditEntry `json:"entries"`
	Next    string       `json:"next,omitempty" doc:"The position after the last entry that was read: after of the next request. Absent: the log is empty."`
	Gap     bool         `json:"gap,omitempty" doc:"Entries after the given position may have been dropped before they were read."`
}

// AuditEntry is a change of state by a person or a key, or a denial.
type AuditEntry struct {
	ID         string `json:"id" doc:"Its position in the log."`
	AtMS       int64  `json:"at_ms" doc:"When it happened, Unix milliseconds on the clock of the instance that recorded it."`
	Key        string `json:"key,omitempty" doc:"The name of the caller's key; for a session, of the key that minted its token; peer:<instance> for a request of another instance."`
	Role       string `json:"role,omitempty" doc:"The role of the caller. Absent: it could not be authenticated."`
	TenantID   string `json:"tenant_id,omitempty" doc:"The tenant of the caller; for a caller of all tenants, that of the object."`
	Action     string `json:"action" doc:"What was done, such as node.drain. A denial of something that is not audited has the method and the path."`
	Object     string `json:"object,omitempty" doc:"What it was done to, such as node/gpu-1."`
	Outcome    string `json:"outcome" enum:"ok,denied,failed"`
	Reason     string `json:"reason,omitempty" doc:"Why it was denied or failed."`
	RequestID  string `json:"request_id,omitempty" doc:"The X-Request-Id of the request, or of the handshake of a WebSocket."`
	Address    string `json:"address,omitempty" doc:"The address of the caller, or of the load balancer before it."`
	Instance   string `json:"instance" doc:"The instance that recorded it."`
	Suppressed int    `json:"suppressed,omitempty" doc:"How many denials of the same address, or failures of the same key, were left out before this entry."`
}
