package server

import (
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/revocation"
	"github.com/lingua-scheduler/lingua/wire"
)

// configRoute is the route that shows the configuration.
func (h *operatorHandlers) configRoute() route {
	return route{
		method: "GET", path: "/v1/config", rule: operators, tag: "operations", summary: "Show the configuration that is in force",
		description: "The configuration of this instance, with the keys and signers by name. Secrets are never shown. Each instance has " +
			"to be asked itself.",
		handler: handle(h.responder, h.showConfig), codes: []wire.Code{wire.InvalidRequest},
	}
}

// showConfig answers with the configuration in force.
func (h *operatorHandlers) showConfig(r *http.Request) (*wire.ConfigView, error) {
	for name := range r.URL.Query() {
		return nil, wire.Invalid(wire.Quote(name), "is not known; this has no parameters")
	}
	force, keyring := h.config.InForce(), h.auth.Keyring()
	v := &wire.ConfigView{
		LoadedMS: force.Loaded.UnixMilli(), Instance: string(h.bus.Instance()), KeysDigest: keyring.Digest(),
		NeedsRestart: force.NeedsRestart,
		Settings:     []wire.ConfigSetting{}, Keys: []wire.ConfigKey{}, Signers: []wire.ConfigSigner{},
	}
	if force.File != "" {
		v.File = filepath.Base(force.File)
	}
	for _, s := range config.Settings(&force.Config) {
		dot := strings.LastIndex(s.Key, ".")
		v.Settings = append(v.Settings, wire.ConfigSetting{
			Section: s.Key[:max(dot, 0)], Key: s.Key[dot+1:], Value: s.Value, Default: s.Default, Hidden: s.Hidden,
			Reload: force.Reloadable(s.Key), Doc: s.Doc,
		})
	}
	for _, k := range keyring.Keys() {
		v.Keys = append(v.Keys, viewKey(&k, h.revocations, time.Now()))
	}
	for _, s := range keyring.Signers() {
		v.Signers = append(v.Signers, wire.ConfigSigner{KID: s.KID, Use: s.Use, Algorithm: auth.TokenAlgorithm})
	}
	return v, nil
}

// viewKey is a key as the API shows it.
func viewKey(k *auth.KeyInfo, revocations *revocation.Follower, now time.Time) wire.ConfigKey {
	v := wire.ConfigKey{
		Name: k.Key, Role: string(k.Role), TenantID: string(k.Tenant), Nodes: k.Nodes, PoolID: string(k.Pool), MaxNodes: k.MaxNodes,
		Secrets: k.Secrets,
		Refused: string(k.Valid(now)),
	}
	if !k.Issued.IsZero() {
		v.NotBeforeMS = k.Issued.UnixMilli()
	}
	if !k.NotAfter.IsZero() {
		v.NotAfterMS = k.NotAfter.UnixMilli()
	}
	if v.Refused == "" && revocations.Revoked(&k.Principal) {
		v.Refused = string(auth.Revoked)
	}
	return v
}
