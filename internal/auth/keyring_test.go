package auth_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
)

func TestEveryCallerIsOperatorWithoutCredentials(t *testing.T) {
	t.Parallel()
	ring := keyring(t, auth.Config{})
	if p := authenticate(t, ring, ""); !ring.Empty() || p.Role != auth.Operator || !p.AllTenants() || !p.ActsForNode("any") {
		t.Errorf("%+v", p)
	}
}

// nodeTokenName is the name of a token of the short form, as docs/credentials.md describes it.
func nodeTokenName(token string) string {
	return fmt.Sprintf("node_tokens/%x", sha256.Sum256([]byte(token)))[:len("node_tokens/")+8]
}

func TestKeys(t *testing.T) {
	t.Parallel()
	ring := keyring(t, config())
	for token, want := range map[string]auth.Principal{
		operatorKey: {Key: "operator_keys", Role: auth.Operator},
		minterKey:   {Key: "acme-backend", Role: auth.Minter, Tenant: "acme", MaxTTL: time.Hour},
		minterNext:  {Key: "acme-backend", Role: auth.Minter, Tenant: "acme", MaxTTL: time.Hour},
		viewerKey:   {Key: "grafana", Role: auth.Viewer},
		metricsKey:  {Key: "prometheus", Role: auth.Metrics},
		gpuToken:    {Key: nodeTokenName(gpuToken), Role: auth.Node, Nodes: "gpu-*"},
		acmeToken:   {Key: nodeTokenName(acmeToken), Role: auth.Node, Nodes: "a-?", Tenant: "acme"},
	} {
		if got := authenticate(t, ring, token); *got != want {
			t.Errorf("%s: %+v, want %+v", want.Key, got, want)
		}
	}
	for token, want := range map[string]auth.Reason{
		"": auth.Missing, "nope": auth.Unknown, operatorKey + "x": auth.Unknown, operatorKey[:10]: auth.Unknown, hash(minterKey): auth.Unknown,
		gpuToken + " ": auth.Unknown, strings.Repeat("x", 1<<20): auth.Malformed,
	} {
		if p, reason := auth.NewAuthenticator(ring, nil).Authenticate(token); reason != want {
			t.Errorf("%.40q: %+v, %s, want %s", token, p, reason, want)
		}
	}
}

func TestValidityOfKeys(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		notBefore, notAfter time.Time
		want                auth.Reason
	}{
		"always":        {},
		"now":           {now.Add(-time.Hour), now.Add(time.Hour), ""},
		"not yet valid": {now.Add(time.Hour), time.Time{}, auth.NotYetValid},
		"expired":       {time.Time{}, now.Add(-time.Second), auth.Expired},
	} {
		ring := keyring(t, auth.Config{OperatorKeys: []string{operatorKey}, Keys: []auth.KeyConfig{
			{Name: "k", Role: auth.Viewer, Secrets: []string{viewerKey}, NotBefore: c.notBefore, NotAfter: c.notAfter},
		}})
		if _, reason := auth.NewAuthenticator(ring, nil).Authenticate(viewerKey); reason != c.want {
			t.Errorf("%s: %q", name, reason)
		}
	}
}

func TestNodesOfAKey(t *testing.T) {
	t.Parallel()
	ring := keyring(t, config())
	if p := authenticate(t, ring, gpuToken); !p.ActsForNode("gpu-1") || p.ActsForNode("cpu-1") || p.SeesTenant("acme") || p.AllTenants() {
		t.Errorf("%+v", p)
	}
	if p := authenticate(t, ring, minterKey); p.ActsForNode("gpu-1") || !p.SeesTenant("acme") || p.SeesTenant("beta") || p.SeesTenant("") {
		t.Errorf("%+v", p)
	}
}

func TestRotationOfKeys(t *testing.T) {
	t.Parallel()
	a := auth.NewAuthenticator(keyring(t, config()), nil)
	c := config()
	c.Keys[0].SHA256 = c.Keys[0].SHA256[1:]
	next := keyring(t, c)
	if a.Keyring().Digest() == next.Digest() {
		t.Error("two different keyrings have the same digest")
	}
	a.Replace(next)
	if _, reason := a.Authenticate(minterKey); reason != auth.Unknown {
		t.Errorf("the old secret: %q", reason)
	}
	if _, reason := a.Authenticate(minterNext); reason != "" {
		t.Errorf("the new secret: %q", reason)
	}
	c.Keys[0], c.Keys[1] = c.Keys[1], c.Keys[0]
	if keyring(t, c).Digest() != next.Digest() {
		t.Error("the digest depends on the order of the keys")
	}
}

func TestInvalidCredentialsAreNamedAndNotQuoted(t *testing.T) {
	t.Parallel()
	operators := func(change func(*auth.Config)) auth.Config {
		c := auth.Config{OperatorKeys: []string{operatorKey}}
		change(&c)
		return c
	}
	oneKey := func(k auth.KeyConfig) auth.Config {
		return operators(func(c *auth.Config) { c.Keys = []auth.KeyConfig{k} })
	}
	tokens := func(entries ...string) auth.Config {
		return operators(func(c *auth.Config) { c.NodeTokens = entries })
	}
	secrets := []string{viewerKey}
	for want, c := range map[string]auth.Config{
		"auth.operator_keys: key 2":        {OperatorKeys: []string{operatorKey, "short-secret"}},
		"auth.node_tokens: entry 1":        tokens("token-without-pattern"),
		"auth.node_tokens: entry 2":        tokens("a="+gpuToken, "b=short-secret"),
		"pattern of node names":            tokens("[=" + gpuToken),
		"cannot be sent":                   {OperatorKeys: []string{"a key with spaces in it"}},
		"that no name can match":           tokens("a b=" + gpuToken),
		"a tenant that is not":             tokens("gpu-*@=" + gpuToken),
		"each secret belongs to one key":   tokens("gpu-*=" + operatorKey),
		"auth.session_secret":              operators(func(c *auth.Config) { c.SessionSecret = "short-secret" }),
		"auth.operator_keys: is empty":     {SessionSecret: secret},
		"auth.keys[0]: name must be":       oneKey(auth.KeyConfig{Name: "a b", Role: auth.Viewer, Secrets: secrets}),
		"auth.keys[0] (k): role must be":   oneKey(auth.KeyConfig{Name: "k", Role: auth.Session, Secrets: secrets}),
		"a minter needs a tenant":          oneKey(auth.KeyConfig{Name: "k", Role: auth.Minter, Secrets: secrets}),
		"so that k cannot mint":            oneKey(auth.KeyConfig{Name: "k", Role: auth.Minter, Tenant: "acme", Secrets: secrets}),
		"of this role has no tenant":       oneKey(auth.KeyConfig{Name: "k", Role: auth.Metrics, Tenant: "acme", Secrets: secrets}),
		"nodes must be a pattern":          oneKey(auth.KeyConfig{Name: "k", Role: auth.Node, Secrets: secrets}),
		"nodes is for keys of role node":   oneKey(auth.KeyConfig{Name: "k", Role: auth.Viewer, Nodes: "*", Secrets: secrets}),
		"max_ttl is for keys of role mint": oneKey(auth.KeyConfig{Name: "k", Role: auth.Viewer, MaxTTL: time.Hour, Secrets: secrets}),
		"max_nodes is for keys of role":    oneKey(auth.KeyConfig{Name: "k", Role: auth.Viewer, MaxNodes: 1, Secrets: secrets}),
		"max_ttl must be between":          oneKey(auth.KeyConfig{Name: "k", Role: auth.Minter, Tenant: "acme", MaxTTL: 48 * time.Hour, Secrets: secrets}),
		"sha256 1 is not":                  oneKey(auth.KeyConfig{Name: "k", Role: auth.Viewer, SHA256: []string{"short-secret"}}),
		"has no secret":                    oneKey(auth.KeyConfig{Name: "k", Role: auth.Viewer}),
		"the maximum is 2":                 oneKey(auth.KeyConfig{Name: "k", Role: auth.Viewer, Secrets: []string{viewerKey, gpuToken, acmeToken}}),
		"not_after must be later":          oneKey(auth.KeyConfig{Name: "k", Role: auth.Viewer, Secrets: secrets, NotBefore: time.Unix(2, 0), NotAfter: time.Unix(1, 0)}),
		"another key of this name": operators(func(c *auth.Config) {
			c.Keys = []auth.KeyConfig{{Name: "k", Role: auth.Viewer, Secrets: secrets}, {Name: "k", Role: auth.Viewer, Secrets: []string{gpuToken}}}
		}),
		"another signer with this kid": operators(func(c *auth.Config) {
			c.Signers = []auth.SignerConfig{{KID: "a", Use: auth.UseSign, Secret: secret}, {KID: "a", Use: auth.UseVerify, Secret: secret}}
		}),
		"another signer signs already": operators(func(c *auth.Config) {
			c.Signers = []auth.SignerConfig{{KID: "a", Use: auth.UseSign, Secret: secret}, {KID: "b", Use: auth.UseSign, Secret: nextSecret}}
		}),
		"use must be sign or verify": operators(func(c *auth.Config) { c.Signers = []auth.SignerConfig{{KID: "a", Use: "both", Secret: secret}} }),
		"its secret is shorter": operators(func(c *auth.Config) {
			c.Signers = []auth.SignerConfig{{KID: "a", Use: auth.UseSign, Secret: "short-secret"}}
		}),
		"which have different tenants": tokens("gpu-*@acme="+acmeToken, "gpu-1*="+gpuToken),
	} {
		ring, err := auth.NewKeyring(c)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "short-secret") {
			t.Errorf("%q: %v, %v", want, ring, err)
		}
	}
}
