package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/config"
)

// runWithInput runs a command with a text on its standard input.
func runWithInput(t *testing.T, input string, args ...string) result {
	t.Helper()
	var out, err bytes.Buffer
	code := execute(t.Context(), args, streams{in: strings.NewReader(input), out: &out, err: &err})
	return result{code: code, out: out.String(), err: err.String()}
}

var printedSecret = regexp.MustCompile(`(?m)^secret: (\S+)$`)

// TestKeysNew: the printed table is a valid configuration in which the printed secret has the role that was asked for.
func TestKeysNew(t *testing.T) {
	t.Parallel()
	operator := runCommand(t, "keys", "new", "--name", "admin", "--role", "operator").out
	operator = printedSecret.ReplaceAllString(operator, "")
	signer := filepath.Join(t.TempDir(), "signer")
	if got := runCommand(t, "keys", "new", "--secret-file", signer); got.code != exitOK {
		t.Fatal(got.err)
	}
	signers := "[[auth.signers]]\nkid = \"a\"\nuse = \"sign\"\nsecret_file = \"" + signer + "\"\n"
	seen := make(map[string]bool)
	for name, args := range map[string][]string{
		"operator": {}, "viewer": {"--tenant", "acme"}, "metrics": {}, "minter": {"--tenant", "acme", "--max-ttl", "1h"},
		"node": {"--tenant", "acme", "--nodes", "gpu-[0-9]*"},
	} {
		got := runCommand(t, append([]string{"keys", "new", "--name", "the-" + name, "--role", name}, args...)...)
		m := printedSecret.FindStringSubmatch(got.out)
		if got.code != exitOK || m == nil || seen[m[1]] {
			t.Fatalf("%s: exit %d, no secret, or the same again\n%s%s", name, got.code, got.out, got.err)
		}
		seen[m[1]] = true
		file := writeConfig(t, operator+signers+strings.Replace(got.out, m[0], "", 1))
		c, _, err := config.Load(file, nil).Validate()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, got.out)
		}
		ring, err := c.Auth.Keyring()
		if err != nil {
			t.Fatal(err)
		}
		p, reason := auth.NewAuthenticator(ring, nil).Authenticate(m[1])
		if reason != "" || string(p.Role) != name || p.Key != "the-"+name {
			t.Errorf("%s: the secret is of %+v, %q", name, p, reason)
		}
		identified := runWithInput(t, m[1]+"\n", "keys", "check", file, "--stdin")
		if identified.code != exitOK || !strings.HasPrefix(identified.out, "the-"+name+": ") {
			t.Errorf("%s: exit %d: %s%s", name, identified.code, identified.out, identified.err)
		}
		hash := runWithInput(t, m[1], "keys", "hash")
		if hash.code != exitOK || !strings.Contains(got.out, `"`+strings.TrimSpace(hash.out)+`"`) {
			t.Errorf("%s: keys hash prints %s%s", name, hash.out, hash.err)
		}
	}
}

// TestKeysNewPool: a key of nodes may name their pool, and what lists keys shows it.
func TestKeysNewPool(t *testing.T) {
	t.Parallel()
	operator := printedSecret.ReplaceAllString(runCommand(t, "keys", "new", "--name", "admin", "--role", "operator").out, "")
	got := runCommand(t, "keys", "new", "--name", "gold-gpus", "--role", "node", "--tenant", "acme", "--nodes", "gpu-*", "--pool", "gold")
	m := printedSecret.FindStringSubmatch(got.out)
	if got.code != exitOK || m == nil {
		t.Fatalf("exit %d: %s%s", got.code, got.out, got.err)
	}
	file := writeConfig(t, operator+strings.Replace(got.out, m[0], "", 1))
	const may = "register and serve as gpu-*, for tenant acme, in the pool gold"
	if listed := runCommand(t, "keys", "check", file); !strings.Contains(listed.out, may) {
		t.Errorf("exit %d: %s%s", listed.code, listed.out, listed.err)
	}
	if found := runWithInput(t, m[1], "keys", "check", file, "--stdin"); found.out != "gold-gpus: "+may+"\n" {
		t.Errorf("exit %d: %s%s", found.code, found.out, found.err)
	}
	if wrong := runCommand(t, "keys", "new", "--name", "x", "--role", "viewer", "--pool", "gold"); wrong.code != exitUsage || !strings.Contains(wrong.err, "pool is for keys of role node") {
		t.Errorf("exit %d: %s", wrong.code, wrong.err)
	}
}

// TestKeysNewSecretFile: the secret is in the file and not printed, only its owner can read it, and a file is never overwritten.
func TestKeysNewSecretFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "node.key")
	args := []string{"keys", "new", "--name", "gpus", "--role", "node", "--nodes", "gpu-*", "--secret-file", file}
	got := runCommand(t, args...)
	body, err := os.ReadFile(file)
	if got.code != exitOK || err != nil {
		t.Fatalf("exit %d, %v\n%s", got.code, err, got.err)
	}
	secret := strings.TrimSpace(string(body))
	if strings.Contains(got.out+got.err, secret) || !strings.Contains(got.out, hashOf(secret)) {
		t.Errorf("it prints the secret, or not its hash:\n%s%s", got.out, got.err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	if again := runCommand(t, args...); again.code != exitUsage || !strings.Contains(again.err, "exists") {
		t.Errorf("exit %d: %s", again.code, again.err)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, body) {
		t.Errorf("the file was changed: %v", err)
	}
}

func TestKeysUsageErrors(t *testing.T) {
	t.Parallel()
	file := writeConfig(t, "")
	for name, c := range map[string]struct {
		input string
		args  []string
		want  string
	}{
		"a role without a name":   {args: []string{"new", "--role", "operator"}, want: "--name is missing"},
		"a name without a role":   {args: []string{"new", "--name", "a"}, want: "role must be"},
		"a minter of no tenant":   {args: []string{"new", "--name", "a", "--role", "minter"}, want: "a minter needs a tenant"},
		"a node without names":    {args: []string{"new", "--name", "a", "--role", "node"}, want: "nodes must be a pattern"},
		"a name with a space":     {args: []string{"new", "--name", "a b", "--role", "viewer"}, want: "name must be"},
		"a secret as argument":    {args: []string{"hash", "0123456789abcdef"}, want: "unexpected argument"},
		"no secret":               {args: []string{"hash"}, want: "no secret on standard input"},
		"a short secret":          {input: "short\n", args: []string{"hash"}, want: "shorter than 16"},
		"two secrets":             {input: "0123456789abcdef\n0123456789abcdef\n", args: []string{"hash"}, want: "2 words"},
		"a long secret":           {input: strings.Repeat("x", 5000), args: []string{"hash"}, want: "longer than"},
		"a file that is not TOML": {args: []string{"check", writeConfig(t, "[auth\n")}, want: "is not valid"},
		"no file":                 {args: []string{"check", "/does/not/exist.toml"}, want: "no such file"},
		"no secret to check":      {args: []string{"check", file, "--stdin"}, want: "no secret on standard input"},
	} {
		got := runWithInput(t, c.input, append([]string{"keys"}, c.args...)...)
		if got.code != exitUsage || !strings.Contains(got.err, c.want) || got.out != "" {
			t.Errorf("%s: exit %d\n%s%s, want %q", name, got.code, got.out, got.err, c.want)
		}
	}
}

// TestKeysCheck lists keys of every state with what they may do, and finds the key of a secret.
func TestKeysCheck(t *testing.T) {
	t.Parallel()
	const operator, viewer, old = "operator-secret-0123456789", "viewer-secret-0123456789", "old-secret-0123456789"
	text := `
[auth]
operator_keys = ["` + operator + `"]
session_secret = "0123456789abcdef0123456789abcdef"

[callback]
allowed_targets = []

[[auth.keys]]
name = "grafana"
role = "viewer"
tenant = "acme"
sha256 = ["` + hashOf(viewer) + `", "` + hashOf("viewer-secret-next-0123456789") + `"]

[[auth.keys]]
name = "former"
role = "viewer"
sha256 = ["` + hashOf(old) + `"]
not_after = 2020-01-01T00:00:00Z

[[auth.keys]]
name = "backend"
role = "minter"
tenant = "acme"
max_ttl = 600
sha256 = ["` + hashOf("minter-secret-0123456789") + `"]
not_before = 2020-01-01T00:00:00Z
`
	file := writeConfig(t, text)
	got := runCommand(t, "keys", "check", file)
	if got.code != exitOK || got.err != "" {
		t.Fatalf("exit %d: %s", got.code, got.err)
	}
	for _, line := range []string{
		`(?m)^operator_keys +operator +– +valid +– +– +1 +everything$`,
		`(?m)^grafana +viewer +acme +valid +– +– +2 +read .* of tenant acme, without what was said$`,
		`(?m)^former +viewer +– +expired +– +2020-01-01T00:00:00Z +1 +read .* of all tenants`,
		`(?m)^backend +minter +acme +valid +2020-01-01T00:00:00Z +– +1 +mint, list and end sessions of tenant acme for up to 10m0s`,
		`(?m)^session_secret +sign$`, `digest of all: [0-9a-f]{12}`,
	} {
		if !regexp.MustCompile(line).MatchString(got.out) {
			t.Errorf("no line %s in\n%s", line, got.out)
		}
	}
	if strings.Contains(got.out, operator) || strings.Contains(got.out, hashOf(viewer)) {
		t.Errorf("it prints a secret, or its hash:\n%s", got.out)
	}
	if got := runCommand(t, "keys", "check", file, "--json"); got.code != exitOK || !strings.Contains(got.out, `"name": "grafana"`) || !strings.Contains(got.out, `"keys_digest": "`) {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	for secret, want := range map[string]string{old: "would be refused: expired", "unknown-secret-0123456789": "would be refused: unknown"} {
		if got := runWithInput(t, secret, "keys", "check", file, "--stdin"); got.code != exitFailed || !strings.Contains(got.err, want) {
			t.Errorf("exit %d: %s, want %q", got.code, got.err, want)
		}
	}
	if got := runCommand(t, "keys", "check", writeConfig(t, "")); got.code != exitOK || !strings.Contains(got.out, "every caller is an operator") {
		t.Errorf("without keys: exit %d %s%s", got.code, got.out, got.err)
	}
}
