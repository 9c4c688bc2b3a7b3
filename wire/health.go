package wire

// HealthResponse is the answer of GET /healthz.
type HealthResponse struct {
	Status string `json:"status" enum:"ok"`
}

// ReadyResponse is the answer of GET /readyz, with status 503 when it is not ready.
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
