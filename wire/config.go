package wire

// ConfigView is the answer of GET /v1/config: the configuration that is in force on one instance. It has no secret.
type ConfigView struct {
	File         string          `json:"file,omitempty" doc:"The name of the config file, without its directory. Absent: there is none."`
	LoadedMS     int64           `json:"loaded_ms" doc:"When it was loaded for the last time, at the start or by a reload."`
	Instance     string          `json:"instance" doc:"The incarnation of the instance that answers. Each has a configuration of its own."`
	KeysDigest   string          `json:"keys_digest" doc:"Identifies the keys and signers: instances with the same digest accept the same."`
	NeedsRestart []string        `json:"needs_restart,omitempty" doc:"Keys that the last reload found changed, and that only a restart puts in force."`
	Settings     []ConfigSetting `json:"settings"`
	Keys         []ConfigKey     `json:"keys" doc:"The keys by name, without their secrets."`
	Signers      []ConfigSigner  `json:"signers" doc:"What session tokens are signed with, without the secrets."`
}

// ConfigSetting is a key of the configuration with its value.
type ConfigSetting struct {
	Section string `json:"section" doc:"The table of the key, such as scheduler.dispatch. Empty: none."`
	Key     string `json:"key" doc:"The name of the key in its table."`
	Value   string `json:"value" doc:"A text as it is; everything else as in a config file. Of URLs, what may be a secret is left out."`
	Default bool   `json:"default" doc:"It has its default value."`
	Hidden  bool   `json:"hidden,omitempty" doc:"The value may be a secret and is not shown: only whether it is the default."`
	Reload  bool   `json:"reload" doc:"A reload puts another value in force; otherwise a restart does."`
	Doc     string `json:"doc" doc:"What the key means."`
}

// ConfigKey is a key of a caller, without its secrets.
type ConfigKey struct {
	Name        string `json:"name"`
	Role        string `json:"role" doc:"operator, viewer, metrics, minter or node."`
	TenantID    string `json:"tenant_id,omitempty" doc:"The tenant of the key. Absent: none."`
	Nodes       string `json:"nodes,omitempty" doc:"The pattern of node names, for the role node."`
	PoolID      string `json:"pool_id,omitempty" doc:"The capability pool of these nodes."`
	MaxNodes    int    `json:"max_nodes,omitempty" doc:"How many nodes may be registered with it. Absent: any number."`
	Secrets     int    `json:"secrets" doc:"How many secrets it has: two while it is rotated."`
	NotBeforeMS int64  `json:"not_before_ms,omitempty" doc:"The key is refused before this time."`
	NotAfterMS  int64  `json:"not_after_ms,omitempty" doc:"The key is refused from this time on."`
	Refused     string `json:"refused,omitempty" doc:"Why the key is refused now: not_yet_valid, expired or revoked. Absent: it is valid."`
}

// ConfigSigner is a secret that signs session tokens, without the secret.
type ConfigSigner struct {
	KID       string `json:"kid"`
	Use       string `json:"use" doc:"sign: new tokens are signed with it, and it verifies. verify: it only verifies."`
	Algorithm string `json:"algorithm" doc:"HS256."`
}
