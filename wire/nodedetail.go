package wire

// NodeDetail is what only the answer about a single node has.
type NodeDetail struct {
	Failures map[string]int `json:"failures,omitempty" doc:"The attempts of the last hour that ended without a result, by reason, as far as the answering instance decided their end; GET /v1/nodes/{id}/series has those of all instances. Only of a single node. Absent: none."`
	Marks    []ServiceMark  `json:"marks,omitempty" doc:"Its services that count as not ready, because it reported them as unavailable. Only of a single node. Absent: none."`

	DrainEffect *DrainEffect `json:"drain_effect,omitempty" doc:"What would be missing without the node, if a drain was asked for with dry_run."`
}

// DrainEffect is what would be missing if a node were drained. It counts the nodes that serve everybody whom this node serves.
type DrainEffect struct {
	InFlight     int             `json:"in_flight" doc:"Jobs that the node has. It keeps them."`
	Slots        int             `json:"slots" doc:"The slots of the node that may be granted."`
	ShareOfSlots float64         `json:"share_of_slots" minimum:"0" maximum:"1" doc:"The share of these in the slots of all ready nodes. 0: the node is not ready as it is."`
	None         []DirectionName `json:"none" doc:"Directions of the node that no other ready node serves, in the pool or for the tenant if it is named; at most 200."`
	One          []DirectionName `json:"one" doc:"Directions of the node that one other ready node serves, in the pool or for the tenant if it is named; at most 200."`
	Truncated    bool            `json:"truncated" doc:"There are further directions in one of the lists, or the node serves so many that not all were counted."`
}

// ServiceMark says that a service of a node counts as not ready.
type ServiceMark struct {
	ServiceID string `json:"service_id"`
	Version   string `json:"version,omitempty" doc:"Absent: all versions."`
	UntilMS   int64  `json:"until_ms" doc:"Until when, Unix milliseconds. It ends before if the node declares that the service has become ready."`
	Reason    string `json:"reason,omitempty" enum:"not_installed,installing,version_mismatch,runtime_error,state_drift,other" doc:"Why, as the node reported it. Absent: the answering instance started after the report."`
}

// DirectionName is a source and a target language.
type DirectionName struct {
	SrcLang  string `json:"src_lang"`
	TgtLang  string `json:"tgt_lang"`
	PoolID   string `json:"pool_id,omitempty" doc:"Only nodes of this pool count."`
	TenantID string `json:"tenant_id,omitempty" doc:"Only nodes that serve this tenant count."`
}
