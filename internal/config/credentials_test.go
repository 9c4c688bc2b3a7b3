package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
)

// authenticate loads a configuration and authenticates a key with it.
func authenticate(t *testing.T, text, token string) *auth.Principal {
	t.Helper()
	file := writeConfig(t, text)
	c, _, err := Load(file, nil).Validate()
	if err != nil {
		t.Fatal(err)
	}
	ring, err := c.Auth.Keyring()
	if err != nil {
		t.Fatal(err)
	}
	p, reason := auth.NewAuthenticator(ring, nil).Authenticate(token)
	if reason != "" {
		t.Fatalf("the key is refused: %s", reason)
	}
	return p
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lingua.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const operatorTable = `
[[auth.keys]]
name = "admin"
role = "operator"
sha256 = ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]
`

// TestAllProblemsOfCredentialsAtOnce: a problem with one credential does not hide those with others.
func TestAllProblemsOfCredentialsAtOnce(t *testing.T) {
	t.Parallel()
	file := writeConfig(t, `
[auth]
operator_keys = ["short"]
node_tokens = ["gpu"]
session_secret = "short"
cluster_secret = ["short"]

[[auth.keys]]
name = "lost"
role = "minter"
secret_file = "/nonexistent/secret"

[[auth.signers]]
kid = "2026"
use = "nothing"
`)
	_, _, err := Load(file, nil).Validate()
	if err == nil {
		t.Fatal("it is valid")
	}
	for _, part := range []string{
		"auth.operator_keys: key 1", "auth.node_tokens: entry 1", "auth.session_secret: is shorter", "auth.cluster_secret: secret 1",
		"auth.keys[0]: ", "a minter needs a tenant", "auth.signers[0]: has 0 secrets", "use must be sign or verify",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in:\n%v", part, err)
		}
	}
	if strings.Contains(err.Error(), "has no secret") {
		t.Errorf("a secret that cannot be read is reported twice:\n%v", err)
	}
}

func TestKeysFromFile(t *testing.T) {
	t.Parallel()
	secrets := writeConfig(t, "old-secret-of-the-fleet\nnew-secret-of-the-fleet\n")
	signer := writeConfig(t, "a-secret-of-more-than-32-characters-for-tokens\n")
	text := operatorTable + `
[[auth.keys]]
name = "fleet"
role = "node"
tenant = "acme"
nodes = "gpu-*"
max_nodes = 100
secret_file = "` + secrets + `"
not_before = 2026-01-01T00:00:00Z
not_after = 2099-01-01T00:00:00+02:00

[[auth.keys]]
name = "backend"
role = "minter"
tenant = "acme"
max_ttl = 600
secret_file = "` + writeConfig(t, "secret-of-the-backend") + `"

[[auth.signers]]
kid = "2026"
use = "sign"
secret_file = "` + signer + `"
`
	for _, token := range []string{"old-secret-of-the-fleet", "new-secret-of-the-fleet"} {
		p := authenticate(t, text, token)
		if p.Key != "fleet" || p.Role != auth.Node || p.Tenant != "acme" || p.MaxNodes != 100 || !p.ActsForNode("gpu-1") || p.Issued.Year() != 2026 {
			t.Errorf("%+v", p)
		}
	}
	if p := authenticate(t, text, "secret-of-the-backend"); p.MaxTTL != 10*time.Minute || p.Role != auth.Minter {
		t.Errorf("%+v", p)
	}
}

func TestKeyFromVariable(t *testing.T) {
	t.Setenv("FLEET_SECRET", "secret-of-the-fleet")
	text := operatorTable + "[[auth.keys]]\nname = \"v\"\nrole = \"viewer\"\nsecret_env = \"FLEET_SECRET\"\n"
	if p := authenticate(t, text, "secret-of-the-fleet"); p.Role != auth.Viewer {
		t.Errorf("%+v", p)
	}
}

// TestInvalidKeys: every mistake is named with the table that has it, and no secret is quoted.
func TestInvalidKeys(t *testing.T) {
	t.Parallel()
	key := func(lines string) string { return operatorTable + "[[auth.keys]]\nname = \"k\"\n" + lines + "\n" }
	empty := writeConfig(t, "")
	for text, want := range map[string]string{
		key(`role = "king"` + "\n" + `sha256 = ["secret-value"]`): "auth.keys[1] (k): role must be",
		key(`role = "viewer"`): "auth.keys[1] (k): has no secret",
		key(`role = "viewer"` + "\n" + `secret_file = "/does/not/exist"`):               "auth.keys[1]: secret_file:",
		key(`role = "viewer"` + "\n" + `secret_file = "` + empty + `"`):                 "is empty",
		key(`role = "viewer"` + "\n" + `secret_env = "NOT_SET_ANYWHERE"`):               "the variable NOT_SET_ANYWHERE is not set",
		key(`role = "viewer"` + "\n" + `secret_env = "LINGUA_KEY"`):                     "use another name",
		key(`role = "viewer"` + "\n" + `secret_env = "A"` + "\n" + `secret_file = "B"`): "not both",
		key(`role = "viewer"` + "\n" + `pool = "p"` + "\n" + `secret_env = "PATH"`):     "pool is for keys of role node",
		key(`rolle = "viewer"`):                                         "auth.keys[1].rolle: there is no such key",
		key(`role = 1`):                                                 "auth.keys[1].role: the value is not a string",
		key(`not_before = "tomorrow"`):                                  "auth.keys[1].not_before: the value is not a time",
		key(`not_before = 2026-01-01`):                                  "auth.keys[1].not_before: the value is not a time",
		"[auth]\nkeys = [\"secret-value\"]":                             "this is a list of tables; write [[auth.keys]]",
		"[auth.keys]\nname = \"k\"":                                     "this is a list of tables; write [[auth.keys]]",
		operatorTable + "[[auth.signers]]\nkid = \"a\"\nuse = \"sign\"": "auth.signers[0]: has 0 secrets",
	} {
		_, _, err := Load(writeConfig(t, text), nil).Validate()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret-value") {
			t.Errorf("%s\nis answered %v, want %q", text, err, want)
		}
	}
}

func TestNodeSecretRequired(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for _, c := range []struct {
		auth Auth
		want bool
	}{
		{Auth{}, false}, {Auth{OperatorKeys: []string{"k"}}, true}, {Auth{RequireNodeSecret: &yes}, true},
		{Auth{OperatorKeys: []string{"k"}, RequireNodeSecret: &no}, false},
	} {
		if got := c.auth.NodeSecretRequired(); got != c.want {
			t.Errorf("%+v: %v", c.auth, got)
		}
	}
}
