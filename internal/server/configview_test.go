package server_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// configSecrets are the secrets of the configuration of TestConfigHasNoSecrets.
const configSecret = "canary-secret-of-the-configuration"

// findSetting returns a setting by its whole key.
func findSetting(t *testing.T, v *wire.ConfigView, key string) wire.ConfigSetting {
	t.Helper()
	i := slices.IndexFunc(v.Settings, func(s wire.ConfigSetting) bool { return strings.TrimPrefix(s.Section+"."+s.Key, ".") == key })
	if i < 0 {
		t.Fatalf("there is no setting %s", key)
	}
	return v.Settings[i]
}

// TestConfigHasNoSecrets: no secret, hash of one, or path of a file with one is in the answer.
func TestConfigHasNoSecrets(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t, func(c *config.Config) {
		c.Auth.OperatorKeys = []string{configSecret + "-operator"}
		c.Auth.NodeTokens = []string{"short-*=" + configSecret + "-node"}
		c.Auth.SessionSecret = configSecret + "-session"
		c.Auth.ClusterSecrets = []string{configSecret + "-cluster"}
		c.Callback.Secret = configSecret + "-callback"
		c.Scheduler.ModelHub.Token = configSecret
		c.Scheduler.Tracing.Token = configSecret
		c.Scheduler.Phase2.Redis.Password, c.Scheduler.Phase2.Redis.SentinelPassword = configSecret, configSecret
	})
	answer := ts.requestAs(keySecret("operator"), "GET", "/v1/config", nil)
	var v wire.ConfigView
	answer.decode(&v)
	for name, secret := range map[string]string{
		"a secret": "canary", "the secret of a key": "secret-of-the-key", "a hash": hashOf(keySecret("operator")), "the start of a hash": hashOf(keySecret("operator"))[:8],
		"the hash of the short form": hashOf(configSecret + "-operator")[:8], "the secret of a signer": matrixSecret,
	} {
		if strings.Contains(string(answer.body), secret) {
			t.Errorf("%s is in the answer", name)
		}
	}
	if s := findSetting(t, &v, "auth.session_secret"); !s.Hidden || s.Value != "" || s.Default || !s.Reload {
		t.Errorf("%+v", s)
	}
	if s := findSetting(t, &v, "scheduler.dispatch.max_retry"); s.Hidden || s.Value != "2" || !s.Default || s.Reload || s.Doc == "" {
		t.Errorf("%+v", s)
	}
	key := func(name string) wire.ConfigKey {
		return v.Keys[slices.IndexFunc(v.Keys, func(k wire.ConfigKey) bool { return k.Name == name })]
	}
	if want := (wire.ConfigKey{Name: "node-acme", Role: "node", TenantID: "acme", Nodes: "acme-*", Secrets: 1}); key("node-acme") != want {
		t.Errorf("%+v", key("node-acme"))
	}
	if k := key("expired"); k.Refused != "expired" || k.NotAfterMS != 1000 {
		t.Errorf("%+v", k)
	}
	if want := []wire.ConfigSigner{{KID: "1", Use: "sign", Algorithm: "HS256"}, {KID: "session_secret", Use: "verify", Algorithm: "HS256"}}; !slices.Equal(v.Signers, want) {
		t.Errorf("%+v", v.Signers)
	}
	if len(v.Keys) != len(matrixKeys)+2 || v.Instance == "" || v.LoadedMS == 0 || v.File != "" || v.KeysDigest == "" {
		t.Errorf("%d keys, %+v", len(v.Keys), v)
	}
}

// TestConfigAfterAReload: the answer has what is in force, and names what waits for a restart. A refused configuration changes nothing.
func TestConfigAfterAReload(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	ts.scheduler.SetConfigFile("/etc/lingua/of-this-instance.toml")
	operator := keySecret("operator")
	view := func() *wire.ConfigView {
		t.Helper()
		var v wire.ConfigView
		ts.requestAs(operator, "GET", "/v1/config", nil).decode(&v)
		return &v
	}
	before := view()
	if before.File != "of-this-instance.toml" || len(before.NeedsRestart) != 0 {
		t.Errorf("%s, %v", before.File, before.NeedsRestart)
	}
	next := config.Default()
	next.Server.PerAddress = 7
	next.Auth.Keys = []config.Key{{Name: "operator", Role: "operator", SHA256: []string{hashOf(operator)}}, {Name: "new", Role: "viewer", SHA256: []string{hashOf(configSecret)}}}
	next.Auth.ClusterSecrets = []string{configSecret}
	ts.scheduler.SetConfigSource(func() (config.Config, []string, error) { return next, nil, nil })
	ts.requestAs(operator, "POST", "/v1/config/reload", nil).decode(&wire.ReloadResponse{})
	after := view()
	if len(after.Keys) != 2 || after.Keys[0].Name != "new" || len(after.Signers) != 0 || after.LoadedMS < before.LoadedMS || after.KeysDigest == before.KeysDigest {
		t.Errorf("%+v", after)
	}
	if s := findSetting(t, after, "auth.cluster_secret"); s.Default || !s.Hidden {
		t.Errorf("a changed key: %+v", s)
	}
	if s := findSetting(t, after, "server.per_address"); !s.Default || s.Value != "1024" || !slices.Contains(after.NeedsRestart, "server.per_address") {
		t.Errorf("a key that needs a restart: %+v, %v", s, after.NeedsRestart)
	}
	next.Auth.Keys = nil
	ts.requestAs(operator, "POST", "/v1/config/reload", nil).expectError(wire.ConfigInvalid)
	if refused := view(); len(refused.Keys) != 2 || refused.LoadedMS != after.LoadedMS {
		t.Errorf("after a refused reload: %+v", refused)
	}
	ts.requestAs(operator, "GET", "/v1/config?secrets=true", nil).expectError(wire.InvalidRequest)
}
