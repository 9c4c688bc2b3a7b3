package wire

import "encoding/json"

// JobFilter selects jobs. It has the filters of GET /v1/jobs; all must match.
type JobFilter struct {
	State     string `json:"state,omitempty" doc:"DISPATCHED, ACKED or RETRYING; absent, or open: all of them."`
	Reason    string `json:"reason,omitempty" doc:"The job, or one of its attempts, ended for this reason."`
	NodeID    string `json:"node_id,omitempty" doc:"This node has or had the job."`
	SessionID string `json:"session_id,omitempty"`
	Language  string `json:"language,omitempty" doc:"From or to this language."`
	SrcLang   string `json:"src_lang,omitempty"`
	TgtLang   string `json:"tgt_lang,omitempty"`
	Region    string `json:"region,omitempty" doc:"The job asked for this region."`
	TenantID  string `json:"tenant_id,omitempty"`
	Search    string `json:"search,omitempty" doc:"Part of the id of the job."`
	Since     int64  `json:"since,omitempty" doc:"Created then or later, in Unix milliseconds."`
	Until     int64  `json:"until,omitempty" doc:"Created before, in Unix milliseconds. Required, except for a dry run, whose answer has it: so a repeated request cannot match jobs that were created meanwhile."`
}

// JobsCancelRequest asks to cancel all jobs that match.
type JobsCancelRequest struct {
	Filter *JobFilter `json:"filter" doc:"Which jobs. A filter that is not known is refused."`
	Expect *int       `json:"expect,omitempty" doc:"How many jobs are expected to match, as a dry run answered. If the number differs by more than a tenth, nothing is cancelled. Never more than these are. Required, except for a dry run."`
	Limit  int        `json:"limit,omitempty" doc:"The maximum number of jobs to cancel, 10000 by default and at most. The newest are cancelled first."`
	DryRun bool       `json:"dry_run,omitempty" doc:"Only count the jobs that match."`
}

// UnmarshalJSON implements json.Unmarshaler. What is not known is refused: a filter that is ignored would match more.
func (r *JobsCancelRequest) UnmarshalJSON(body []byte) error {
	type plain JobsCancelRequest
	return decodeBulk(body, (*plain)(r))
}

// decodeBulk decodes a request on all objects that match a filter. A filter that is not known is refused, and so is one that is empty,
// perhaps because a variable of a script was not set: ignored, they would select more.
func decodeBulk(body []byte, into any) error {
	if err := DecodeStrictly(body, into, "", "ignoring it would select more"); err != nil {
		return err
	}
	var in struct {
		Filter map[string]any `json:"filter"`
	}
	_ = json.Unmarshal(body, &in) // it was decoded before
	for name, value := range in.Filter {
		if value == "" || value == nil {
			return Invalid("filter."+name, "must not be empty: leave it out to select whatever it is")
		}
	}
	return nil
}

// JobsCancelResponse says how many jobs matched, and what became of them.
type JobsCancelResponse struct {
	DryRun       bool  `json:"dry_run" doc:"Nothing was changed."`
	Matches      int   `json:"matches" doc:"How many open jobs matched."`
	Truncated    bool  `json:"truncated" doc:"More match than one request may cancel."`
	UntilMS      int64 `json:"until_ms" doc:"No job that matched was created then or later. Send it as filter.until."`
	Cancelled    int   `json:"cancelled"`
	AlreadyEnded int   `json:"already_ended" doc:"How many ended before they could be cancelled."`
	Failed       int   `json:"failed" doc:"For how many the store did not answer: they may be cancelled or not."`
	Remaining    int   `json:"remaining" doc:"How many were not tried, because of the limit, the time, or a store that does not answer."`
}

// NodeFilter selects nodes. It has the filters of the table of nodes; all must match.
type NodeFilter struct {
	Search   string `json:"search,omitempty" doc:"Part of the name, in any case."`
	State    string `json:"state,omitempty" doc:"ready, degraded, draining, ejected, disconnected or offline."`
	Language string `json:"language,omitempty" doc:"The node has this language, for any step."`
	SrcLang  string `json:"src_lang,omitempty" doc:"With tgt_lang: the node serves this direction."`
	TgtLang  string `json:"tgt_lang,omitempty"`
	Region   string `json:"region,omitempty"`
	TenantID string `json:"tenant_id,omitempty"`
	Service  string `json:"service,omitempty" doc:"The node has this service, service_id or service_id@version."`
	PoolID   string `json:"pool_id,omitempty" doc:"The node belongs to this capability pool."`
}

// NodesDrainRequest asks to drain, or to resume, all nodes that match.
type NodesDrainRequest struct {
	Filter *NodeFilter `json:"filter" doc:"Which nodes. A filter that is not known is refused."`
	Expect *int        `json:"expect,omitempty" doc:"How many nodes are expected to match, as a dry run answered. If the number differs by more than a tenth, nothing is changed. Never more than these are. Required, except for a dry run."`
	Limit  int         `json:"limit,omitempty" doc:"The maximum number of nodes to change, 10000 by default and at most, by name."`
	DryRun bool        `json:"dry_run,omitempty" doc:"Only count the nodes that match."`
}

// UnmarshalJSON implements json.Unmarshaler, as that of JobsCancelRequest.
func (r *NodesDrainRequest) UnmarshalJSON(body []byte) error {
	type plain NodesDrainRequest
	return decodeBulk(body, (*plain)(r))
}

// NodesDrainResponse says how many nodes matched, and what became of them.
type NodesDrainResponse struct {
	DryRun    bool `json:"dry_run" doc:"Nothing was changed."`
	Matches   int  `json:"matches" doc:"How many nodes matched."`
	Truncated bool `json:"truncated" doc:"More match than one request may change."`
	Changed   int  `json:"changed"`
	Unchanged int  `json:"unchanged" doc:"How many were drained, or resumed, already."`
	Failed    int  `json:"failed" doc:"How many are gone, or for how many the store did not answer."`
	Remaining int  `json:"remaining" doc:"How many were not tried, because of the limit, the time, or a store that does not answer."`
	// DrainEffect is in the answer to a dry run of a drain.
	DrainEffect *DrainEffect `json:"drain_effect,omitempty" doc:"What would be missing without these nodes, but for their jobs; in the answer to a dry run of a drain."`
}
