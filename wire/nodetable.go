package wire

// NodeTable is the answer of GET /v1/nodes/table: a part of the node table, from the memory of the answering instance.
type NodeTable struct {
	GeneratedMS int64          `json:"generated_ms" doc:"When the table was made, Unix milliseconds."`
	AgeMS       int64          `json:"age_ms" doc:"How old the table is."`
	Partial     bool           `json:"partial,omitempty" doc:"The answering instance has just started: nodes may be missing."`
	Total       int            `json:"total" doc:"All nodes that the caller may see."`
	Matches     int            `json:"matches" doc:"Those that match all filters."`
	Offset      int            `json:"offset" doc:"How many matches are before the first row."`
	States      map[string]int `json:"states" doc:"The nodes that match all filters but state, by state. States without nodes are absent."`
	Rows        []NodeRow      `json:"rows"`
}

// NodeRow is a node in a NodeTable.
type NodeRow struct {
	NodeID          string   `json:"node_id"`
	State           string   `json:"state" enum:"ready,degraded,draining,ejected,disconnected,offline" doc:"Offline: it says so, or it has sent no heartbeat for the presence time."`
	Slots           int      `json:"slots" doc:"The slots that may be granted: those that it declares, or fewer while it is ejected or limited."`
	Used            int      `json:"used" doc:"The slots that were in use when the answering instance last heard of it."`
	Region          string   `json:"region,omitempty"`
	Zone            string   `json:"zone,omitempty"`
	TenantID        string   `json:"tenant_id,omitempty"`
	PoolID          string   `json:"pool_id,omitempty" doc:"Its capability pool."`
	Langs           []string `json:"langs" doc:"The first of the languages that it has, for any step; at most 8, sorted."`
	MoreLangs       int      `json:"more_langs,omitempty" doc:"How many further languages it has."`
	Services        int      `json:"services" doc:"How many service packages are installed."`
	Load            *float64 `json:"load,omitempty" minimum:"0" maximum:"1" doc:"The highest of the loads that it reported, of CPU, GPU and memory. Absent: it reported none."`
	LastHeartbeatMS int64    `json:"last_heartbeat_ms,omitempty" doc:"When it was last seen, Unix milliseconds."`
	// Done5m and Failed5m are what the answering instance has counted.
	Done5m      *int   `json:"done_5m,omitempty" doc:"Jobs that it ended with a result in the last 5 minutes, as far as the answering instance decided their end. Absent: not counted."`
	Failed5m    *int   `json:"failed_5m,omitempty" doc:"Attempts that it failed in the same time. Absent: not counted."`
	Incarnation string `json:"incarnation,omitempty" doc:"The incarnation of the instance that it is connected to."`
}
