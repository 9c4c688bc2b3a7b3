package auth_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/auth"
)

// TestChanges: every change of a configuration is named, without secrets, and an unchanged one has none.
func TestChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*auth.Config)
		want   []string
	}{
		"nothing":         {func(*auth.Config) {}, nil},
		"an operator":     {func(c *auth.Config) { c.OperatorKeys = append(c.OperatorKeys, "operator-key-next-0123") }, []string{"key operator_keys changed"}},
		"a secret":        {func(c *auth.Config) { c.Keys[0].SHA256 = c.Keys[0].SHA256[:1] }, []string{"key acme-backend changed"}},
		"a lifetime":      {func(c *auth.Config) { c.Keys[0].MaxTTL = time.Minute }, []string{"key acme-backend changed"}},
		"an expiry":       {func(c *auth.Config) { c.Keys[1].NotAfter = time.Now().Add(time.Hour) }, []string{"key grafana changed"}},
		"a removed key":   {func(c *auth.Config) { c.Keys = c.Keys[:2] }, []string{"key prometheus removed"}},
		"a new name":      {func(c *auth.Config) { c.Keys[2].Name = "prom" }, []string{"key prom added", "key prometheus removed"}},
		"the other signs": {func(c *auth.Config) { c.Signers[0].Use, c.Signers[1].Use = "verify", "sign" }, []string{"signer 2026-11 changed", "signer 2026-12 changed"}},
		"a signer gone":   {func(c *auth.Config) { c.Signers = c.Signers[:1] }, []string{"signer 2026-12 removed"}},
		"a signer's text": {func(c *auth.Config) { c.Signers[1].Secret += "x" }, []string{"signer 2026-12 changed"}},
		"the cluster":     {func(c *auth.Config) { c.ClusterSecrets = []string{nextSecret, secret} }, []string{"cluster_secret changed"}},
	} {
		before, next := config(), config()
		before.ClusterSecrets, next.ClusterSecrets = []string{secret}, []string{secret}
		c.change(&next)
		a, b := keyring(t, before), keyring(t, next)
		got := a.Changes(b)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if (a.Digest() == b.Digest()) != (len(c.want) == 0) {
			t.Errorf("%s: the digests are %s and %s", name, a.Digest(), b.Digest())
		}
	}
}

// TestKnows: a caller is known as long as its key has its name, its role and its tenant, whatever its secrets are.
func TestKnows(t *testing.T) {
	t.Parallel()
	ring := keyring(t, config())
	token := authenticate(t, ring, mint(t, ring, authenticate(t, ring, minterKey), "acme", time.Minute))
	callers := map[string]*auth.Principal{
		"operator": authenticate(t, ring, operatorKey), "minter": authenticate(t, ring, minterKey), "viewer": authenticate(t, ring, viewerKey),
		"gpu": authenticate(t, ring, gpuToken), "acme": authenticate(t, ring, acmeToken), "session": token,
	}
	for name, c := range map[string]struct {
		change  func(*auth.Config)
		unknown string // separated by commas
	}{
		"nothing": {func(*auth.Config) {}, ""},
		"other secrets": {func(c *auth.Config) {
			c.Keys[0].SHA256, c.OperatorKeys[0] = c.Keys[0].SHA256[1:], "operator-key-next-0123"
		}, ""},
		"a removed minter": {func(c *auth.Config) { c.Keys = c.Keys[1:] }, "minter,session"},
		"another tenant":   {func(c *auth.Config) { c.Keys[0].Tenant = "beta" }, "minter,session"},
		"another role":     {func(c *auth.Config) { c.Keys[1].Role = auth.Metrics }, "viewer"},
		"a removed signer": {func(c *auth.Config) {
			c.Signers = []auth.SignerConfig{{KID: "2026-12", Use: "sign", Secret: nextSecret}}
		}, "session"},
		"a removed node token":         {func(c *auth.Config) { c.NodeTokens = c.NodeTokens[1:] }, "gpu"},
		"another secret of node token": {func(c *auth.Config) { c.NodeTokens = []string{"gpu-*=gpu-token-next-0123456789", c.NodeTokens[1]} }, ""},
		"another order of node tokens": {func(c *auth.Config) { c.NodeTokens[0], c.NodeTokens[1] = c.NodeTokens[1], c.NodeTokens[0] }, ""},
		"no operator keys":             {func(c *auth.Config) { c.OperatorKeys, c.Keys[1].Role = nil, auth.Operator }, "operator,viewer"},
	} {
		next := config()
		c.change(&next)
		after := keyring(t, next)
		for who, p := range callers {
			if got, want := after.Knows(p, time.Now()), !strings.Contains(","+c.unknown+",", ","+who+","); got != want {
				t.Errorf("%s: %s is known: %v", name, who, got)
			}
		}
	}
	now := time.Now()
	if none := keyring(t, auth.Config{}); !none.Knows(&auth.Principal{Role: auth.Operator}, now) || none.Knows(callers["operator"], now) || ring.Knows(&auth.Principal{Role: auth.Operator}, now) {
		t.Error("a caller without a key is known only where there are no keys")
	}
}

// TestKeyringInspection: Keys and Signers list everything, and no secret.
func TestKeyringInspection(t *testing.T) {
	t.Parallel()
	ring := keyring(t, config())
	var names []string
	for _, k := range ring.Keys() {
		names = append(names, k.Key)
		if want := map[string]int{"acme-backend": 2}[k.Key]; k.Secrets != max(want, 1) || k.Valid(time.Now()) != "" {
			t.Errorf("%+v", k)
		}
	}
	want := []string{"acme-backend", "grafana", nodeTokenName(acmeToken), nodeTokenName(gpuToken), "operator_keys", "prometheus"}
	slices.Sort(want)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]auth.SignerInfo{{KID: "2026-11", Use: "sign"}, {KID: "2026-12", Use: "verify"}}, ring.Signers()); diff != "" {
		t.Error(diff)
	}
}

// TestKnowsOfChangedNodeKey: a connection of a node does not outlast its key, or the pattern of names under which it was made.
func TestKnowsOfChangedNodeKey(t *testing.T) {
	t.Parallel()
	now := time.Now()
	key := auth.KeyConfig{Name: "gpus", Role: auth.Node, Nodes: "gpu-*", Secrets: []string{gpuToken}}
	ringOf := func(k auth.KeyConfig) *auth.Keyring {
		return keyring(t, auth.Config{OperatorKeys: []string{operatorKey}, Keys: []auth.KeyConfig{k}})
	}
	caller := authenticate(t, ringOf(key), gpuToken)
	expiring, narrowed := key, key
	expiring.NotAfter, narrowed.Nodes = now.Add(time.Hour), "gpu-1"
	for name, c := range map[string]struct {
		key  auth.KeyConfig
		at   time.Time
		want bool
	}{
		"the same":                 {key, now, true},
		"before it expires":        {expiring, now, true},
		"after it has expired":     {expiring, now.Add(time.Hour), false},
		"another pattern of names": {narrowed, now, false},
	} {
		ring := ringOf(c.key)
		if got := ring.Knows(caller, c.at); got != c.want {
			t.Errorf("%s: known %v, want %v", name, got, c.want)
		}
		if ring.Expires() != !c.key.NotAfter.IsZero() {
			t.Errorf("%s: some key expires: %v", name, ring.Expires())
		}
	}
}

// TestNodeTokenKeepsItsName: the name of a token of the short form does not depend on the others, so that a revocation stays with it.
func TestNodeTokenKeepsItsName(t *testing.T) {
	t.Parallel()
	for _, tokens := range [][]string{{"gpu-*=" + gpuToken}, {"cpu-*=cpu-token-0123456789", "gpu-*=" + gpuToken}, {"gpu-*=" + gpuToken, "gpu-*=gpu-token-next-0123456789"}} {
		ring := keyring(t, auth.Config{OperatorKeys: []string{operatorKey}, NodeTokens: tokens})
		if got := authenticate(t, ring, gpuToken).Key; got != nodeTokenName(gpuToken) {
			t.Errorf("the name is %s, want %s", got, nodeTokenName(gpuToken))
		}
	}
}
