package wire

// StoreStatus is the answer of GET /v1/store: the shared store, as the answering instance sees it. It has no credentials.
type StoreStatus struct {
	Kind      string `json:"kind" enum:"memory,redis"`
	Mode      string `json:"mode,omitempty" enum:"standalone,sentinel,cluster" doc:"How Redis is deployed. Absent for memory."`
	Reachable bool   `json:"reachable" doc:"The answering instance can use it. While it cannot, every dispatch is refused."`
	Problem   string `json:"problem,omitempty" doc:"Why it cannot, as /readyz says."`
	CheckedMS int64  `json:"checked_ms,omitempty" doc:"When the servers were asked, in Unix milliseconds. They are asked at most every 5 s, and only while somebody wants to know. Absent for memory."`
	// Latency is absent if there were no calls.
	Latency     *StoreLatency `json:"latency,omitempty" doc:"Of the calls of the answering instance in the last minute. Absent: there were none."`
	Servers     []StoreServer `json:"servers,omitempty" doc:"The servers, by address. Absent for memory."`
	GeneratedMS int64         `json:"generated_ms"`
}

// StoreLatency says how long calls to the store took.
type StoreLatency struct {
	P50MS float64 `json:"p50_ms"`
	P99MS float64 `json:"p99_ms"`
	MaxMS float64 `json:"max_ms"`
	Calls int64   `json:"calls"`
}

// StoreServer is one server of the store.
type StoreServer struct {
	Address string `json:"address"`
	Role    string `json:"role" enum:"primary,replica"`
	Slots   string `json:"slots,omitempty" doc:"The slots of a primary of a cluster, such as 0-5460."`
	Healthy bool   `json:"healthy" doc:"It answers, and a replica is connected to its primary."`
	// The fields below are absent if the server was not asked, or did not answer.
	Version       string   `json:"version,omitempty" doc:"This and the fields below are absent if it did not answer. Replicas that are not part of a cluster are not asked: their primary says how far they are behind."`
	UsedMemory    int64    `json:"used_memory_bytes,omitempty"`
	MaxMemory     int64    `json:"max_memory_bytes,omitempty" doc:"Absent: it has no limit."`
	Policy        string   `json:"policy,omitempty" doc:"What it does when its memory is full; noeviction is required."`
	LagBytes      *int64   `json:"lag_bytes,omitempty" doc:"How far a replica is behind its primary."`
	PingMS        *float64 `json:"ping_ms,omitempty"`
	UptimeSeconds int64    `json:"uptime_seconds,omitempty"`
	Clients       int      `json:"clients,omitempty"`
}
