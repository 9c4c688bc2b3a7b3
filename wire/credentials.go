package wire

// This file holds the bodies of requests about credentials and sessions.

// RevocationRequest is the body of POST /v1/auth/revocations. It has exactly one of key, kid, tenant, session and node.
type RevocationRequest struct {
	Key      string `json:"key,omitempty" maxLength:"128" doc:"The name of a key: the key, and every token that it has minted."`
	KID      string `json:"kid,omitempty" maxLength:"128" doc:"A signer: every token that was signed with it."`
	Tenant   string `json:"tenant,omitempty" maxLength:"128" doc:"A tenant: its keys, tokens, sessions and nodes."`
	Session  string `json:"session,omitempty" maxLength:"128" doc:"A session: its tokens, and the running session."`
	TenantID string `json:"tenant_id,omitempty" maxLength:"128" doc:"The tenant of the session."`
	Node     string `json:"node,omitempty" maxLength:"128" doc:"The name of a node, which cannot register until the revocation is lifted."`
	Before   string `json:"before,omitempty" doc:"Only what was issued or began before this time, in the format of RFC 3339. Absent: now. A node has none."`
	Reason   string `json:"reason,omitempty" maxLength:"256" doc:"A text for people that is listed with the revocation."`
}

// Revocation is an entry of the list of revocations.
type Revocation struct {
	ID       string   `json:"id" doc:"What is revoked: kind~name, or session~tenant~name."`
	Kind     string   `json:"kind" enum:"key,kid,tenant,session,node,login"`
	Name     string   `json:"name"`
	TenantID string   `json:"tenant_id,omitempty" doc:"The tenant of the session."`
	BeforeMS int64    `json:"before_ms,omitempty" doc:"What was issued or began before this time is revoked, Unix milliseconds."`
	AtMS     int64    `json:"at_ms" doc:"When it was added, Unix milliseconds on the clock of the store."`
	UntilMS  int64    `json:"until_ms,omitempty" doc:"When it is dropped, because no such token can be alive then. Absent: when it is lifted."`
	Ended    bool     `json:"ended,omitempty" doc:"The session was ended by DELETE /v1/sessions/{id}."`
	By       string   `json:"by,omitempty" doc:"The name of the key with which it was requested."`
	Reason   string   `json:"reason,omitempty"`
	Warnings []string `json:"warnings,omitempty" doc:"What may be a mistake in the request, for people."`
}

// RevocationList is the answer of GET /v1/auth/revocations.
type RevocationList struct {
	Revocations []Revocation `json:"revocations"`
	NextCursor  string       `json:"next_cursor,omitempty" doc:"The cursor of the next page. Absent: this is the last."`
}

// SessionList is the answer of GET /v1/sessions.
type SessionList struct {
	Sessions   []SessionInfo `json:"sessions"`
	NextCursor string        `json:"next_cursor,omitempty" doc:"The cursor of the next page. Absent: this is the last."`
	Partial    bool          `json:"partial,omitempty" doc:"Some instances were not asked, or did not answer: their sessions are missing."`
}

// SessionInfo is a session of one instance.
type SessionInfo struct {
	SessionID  string   `json:"session_id"`
	TenantID   string   `json:"tenant_id,omitempty"`
	Instance   string   `json:"instance" doc:"The incarnation of the instance that has the session."`
	Langs      []string `json:"langs" doc:"Its two languages."`
	StartedMS  int64    `json:"started_ms" doc:"Unix milliseconds."`
	Connected  bool     `json:"connected" doc:"A client is connected. Otherwise the session can be resumed for resume_seconds."`
	Utterances int64    `json:"utterances"`
	Pending    int      `json:"pending" doc:"Utterances of these whose result was not sent yet."`
	Key        string   `json:"key,omitempty" doc:"The name of the key that minted the token of its connection, or of the key with which it is connected."`

	Remote          string      `json:"remote,omitempty" doc:"The address of its client, or of the load balancer before it. Absent: it is not known."`
	Reconnects      int64       `json:"reconnects" doc:"How often it was resumed over another connection."`
	Speaking        bool        `json:"speaking" doc:"Audio of an utterance is being received."`
	LastActiveMS    int64       `json:"last_active_ms" doc:"When the last message of its client was received, or the connection changed. Unix milliseconds."`
	LastResultLagMS *int64      `json:"last_result_lag_ms,omitempty" doc:"How far the last result was behind its speaker when it was sent. Absent: none was sent by this instance."`
	LagP95MS        *int64      `json:"lag_p95_ms,omitempty" doc:"The lag that 95 % of the last results, at most 32, did not exceed."`
	LagStagesMS     *SessionLag `json:"lag_stages_ms,omitempty" doc:"The parts of last_result_lag_ms."`
}

// SessionLag has the parts of the lag of a result behind its speaker, in milliseconds.
type SessionLag struct {
	SegmentationMS int64 `json:"segmentation" doc:"From the end of the speech to the end of the utterance."`
	WaitMS         int64 `json:"wait" doc:"Until a node with a free slot was found."`
	DispatchMS     int64 `json:"dispatch" doc:"Until the node that produced the result had the job, retries included."`
	NodeMS         int64 `json:"node" doc:"Until the node's result was stored."`
	ReturnMS       int64 `json:"return" doc:"Until it was sent: the way back, and results before it."`
}

// SessionTerminated is the answer of DELETE /v1/sessions/{id}.
type SessionTerminated struct {
	SessionID string `json:"session_id"`
	TenantID  string `json:"tenant_id,omitempty"`
	Ended     bool   `json:"ended" doc:"There was such a session. Otherwise only its tokens are revoked."`
}
