package wire

import "encoding/json"

// JobAckRequest is the body of POST /v1/job/ack: the node has the job and will work on it.
type JobAckRequest struct {
	JobID     string `json:"job_id"`
	AttemptID int    `json:"attempt_id"`
	NodeID    string `json:"node_id"`
	Epoch     *int64 `json:"epoch,omitempty" doc:"Checked when present."`
}

// JobDoneRequest is the body of POST /v1/job/done.
type JobDoneRequest struct {
	JobAckRequest
	Status string          `json:"status,omitempty" doc:"Anything but ok counts as a failure. Default: ok."`
	Reason string          `json:"reason,omitempty" doc:"Why it failed, when it did."`
	Result json.RawMessage `json:"result,omitempty" doc:"An object such as {text_src, text_tgt}; kept with the job as it is."`
}

// JobFailRequest is the body of POST /v1/job/fail.
type JobFailRequest struct {
	JobAckRequest
	Status string `json:"status,omitempty"`
	Reason string `json:"reason,omitempty" doc:"Why it failed. NODE_BUSY says that the node had no room: it costs the job no attempt."`
}

// Job is a job as the scheduler sees it.
type Job struct {
	JobID      string          `json:"job_id"`
	RequestID  string          `json:"request_id"`
	SessionID  string          `json:"session_id"`
	TenantID   string          `json:"tenant_id,omitempty"`
	SrcLang    string          `json:"src_lang"`
	TgtLang    string          `json:"tgt_lang"`
	State      string          `json:"state" enum:"DISPATCHED,ACKED,RETRYING,DONE,FAILED,CANCELLED"`
	NodeID     string          `json:"node_id" doc:"Who has it, or had it last."`
	AttemptID  int             `json:"attempt_id"`
	Reason     string          `json:"reason,omitempty" doc:"Why the last attempt or the job ended."`
	Detail     string          `json:"detail,omitempty" doc:"The node's own word for it."`
	Result     json.RawMessage `json:"result,omitempty"`
	CreatedMS  int64           `json:"created_ms"`
	UpdatedMS  int64           `json:"updated_ms"`
	DeadlineMS int64           `json:"deadline_ms"`
	Attempts   []Attempt       `json:"attempts"`
}

// Attempt is one line of a job's history.
type Attempt struct {
	AttemptID int    `json:"attempt_id"`
	NodeID    string `json:"node_id"`
	StartedMS int64  `json:"started_ms"`
	EndedMS   int64  `json:"ended_ms,omitempty"`
	Reason    string `json:"reason,omitempty" doc:"Why it ended, unless it brought the result."`
}

// JobList is the answer of GET /v1/jobs.
type JobList struct {
	Jobs       []Job  `json:"jobs"`
	NextCursor string `json:"next_cursor,omitempty" doc:"There are more: ask again with this as cursor, and the same filters."`
}

// CancelResponse is the answer of POST /v1/jobs/{id}/cancel.
type CancelResponse struct {
	OK        bool `json:"ok"`
	Cancelled bool `json:"cancelled" doc:"The job is cancelled. False when it had ended otherwise before."`
	Job       Job  `json:"job"`
}
