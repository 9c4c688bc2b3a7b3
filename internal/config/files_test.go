package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/test/tlstest"
)

// warningsOf loads a file with a mode and returns the warnings about it.
func warningsOf(t *testing.T, text string, mode os.FileMode, environ ...string) []string {
	t.Helper()
	file := writeConfig(t, text)
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
	_, warnings, err := Load(file, environ).Validate()
	if err != nil {
		t.Fatal(err)
	}
	return warnings
}

// TestAllowedTargetsWithKeys: with keys, callbacks are off unless allowed_targets is set, in any source and to any value.
func TestAllowedTargetsWithKeys(t *testing.T) {
	t.Parallel()
	const keys = "[auth]\noperator_keys = [\"0123456789abcdef\"]\n"
	for name, c := range map[string]struct {
		text    string
		environ []string
		want    string
		warns   bool
	}{
		"no keys":                       {want: "127.0.0.0/8,::1/128"},
		"keys":                          {text: keys, warns: true},
		"keys of the environment":       {environ: []string{"LINGUA_AUTH_OPERATOR_KEYS=0123456789abcdef"}, warns: true},
		"named keys":                    {text: operatorTable, warns: true},
		"a target":                      {text: keys + "[callback]\nallowed_targets = [\"10.0.0.0/8\"]\n", want: "10.0.0.0/8"},
		"the default, written out":      {text: keys + "[callback]\nallowed_targets = [\"127.0.0.0/8\"]\n", want: "127.0.0.0/8"},
		"none, written out":             {text: keys + "[callback]\nallowed_targets = []\n"},
		"a target from the environment": {text: keys, environ: []string{"LINGUA_CALLBACK_ALLOWED_TARGETS=10.0.0.0/8"}, want: "10.0.0.0/8"},
	} {
		cfg, warnings, err := Load(writeConfig(t, c.text), c.environ).Validate()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(cfg.Callback.AllowedTargets, ","); got != c.want {
			t.Errorf("%s: allowed targets are %q, want %q", name, got, c.want)
		}
		if warned := strings.Contains(strings.Join(warnings, "\n"), "callback.allowed_targets: is not set"); warned != c.warns {
			t.Errorf("%s: %q", name, warnings)
		}
	}
}

// TestWarningsAboutReadableFiles: a file with a secret that everybody can read is a warning, and one without a secret is none.
func TestWarningsAboutReadableFiles(t *testing.T) {
	t.Parallel()
	const targets = "[callback]\nallowed_targets = []\n"
	secret := writeConfig(t, "a-secret-of-more-than-32-characters-for-tokens\n")
	readable := writeConfig(t, "a-secret-of-more-than-32-characters-for-tokens\n")
	if err := os.Chmod(readable, 0o644); err != nil {
		t.Fatal(err)
	}
	signer := func(file string) string {
		return targets + operatorTable + "[[auth.signers]]\nkid = \"a\"\nuse = \"sign\"\nsecret_file = \"" + file + "\"\n"
	}
	key := func(file string) string {
		return targets + operatorTable + "[[auth.keys]]\nname = \"v\"\nrole = \"viewer\"\nsecret_file = \"" + file + "\"\n"
	}
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string // empty: no warning
	}{
		"keys, for everybody":        {targets + "[auth]\noperator_keys = [\"0123456789abcdef\"]\n", 0o644, "holds auth.operator_keys: chmod o-r"},
		"keys, for a group":          {targets + "[auth]\noperator_keys = [\"0123456789abcdef\"]\n", 0o640, ""},
		"hashes, for everybody":      {targets + operatorTable, 0o644, ""},
		"a password, for everybody":  {"[scheduler.phase2.redis]\npassword = \"p\"\n", 0o604, "holds scheduler.phase2.redis.password"},
		"a password in a URL":        {"store = \"redis://:secret@127.0.0.1\"\n", 0o644, "holds store"},
		"a URL without a password":   {"store = \"redis://127.0.0.1\"\n", 0o644, ""},
		"a callback's secret":        {"[callback]\nsecret = \"0123456789abcdef0123456789abcdef\"\n", 0o644, "holds callback.secret"},
		"a signer, for everybody":    {signer(readable), 0o600, readable + ": everybody"},
		"a signer, for its owner":    {signer(secret), 0o644, ""},
		"a secret_file of a key":     {key(readable), 0o600, readable + ": everybody"},
		"no secrets, for everybody":  {"[server]\nport = 5011\n", 0o644, ""},
		"two secrets, for everybody": {targets + "[auth]\noperator_keys = [\"0123456789abcdef\"]\ncluster_secret = [\"0123456789abcdef0123456789abcdef\"]\n", 0o644, "auth.cluster_secret, auth.operator_keys"},
	} {
		got := strings.Join(warningsOf(t, c.text, c.mode), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if strings.Contains(got, "0123456789abcdef") {
			t.Errorf("%s: the warning quotes a secret: %s", name, got)
		}
	}
}

func TestTLSFiles(t *testing.T) {
	t.Parallel()
	a := tlstest.NewAuthority(t)
	p, other := a.NewPair(t), a.NewPair(t)
	text := func(cert, key string) string {
		return "[server]\ntls_cert = \"" + cert + "\"\ntls_key = \"" + key + "\"\ntls_ca = \"" + a.File + "\"\n"
	}
	if w := warningsOf(t, text(p.Cert, p.Key), 0o644); len(w) != 0 {
		t.Errorf("%q", w)
	}
	if _, _, err := Load(writeConfig(t, text(p.Cert, other.Key)), nil).Validate(); err == nil || !strings.Contains(err.Error(), "server.tls_cert: ") {
		t.Errorf("a key of another certificate: %v", err)
	}
	if err := os.Chmod(p.Key, 0o644); err != nil {
		t.Fatal(err)
	}
	if w := strings.Join(warningsOf(t, text(p.Cert, p.Key), 0o600), "\n"); !strings.Contains(w, p.Key+": everybody") {
		t.Errorf("a readable key: %q", w)
	}
	a.Renew(t, p, -time.Hour)
	if w := strings.Join(warningsOf(t, text(p.Cert, p.Key), 0o600), "\n"); !strings.Contains(w, "has expired") {
		t.Errorf("an expired certificate: %q", w)
	}
}
