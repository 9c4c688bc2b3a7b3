package auth_test

import (
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
)

const (
	operator = "operator-key-0123456789"
	secret   = "a secret of at least thirty-two characters"
	gpu      = "gpu-token-0123456789"
	acme     = "acme-token-0123456789"
)

// keys are the credentials of these tests.
func keys(t *testing.T) *auth.Keys {
	t.Helper()
	k, err := auth.New(auth.Config{
		OperatorKeys: []string{operator}, NodeTokens: []string{"gpu-*=" + gpu, "a-?@acme=" + acme}, Secret: secret,
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestEveryCallerIsOperatorWithoutCredentials(t *testing.T) {
	t.Parallel()
	k, err := auth.New(auth.Config{})
	if err != nil || !k.Empty() || !k.IsOperator("") {
		t.Fatal(k, err)
	}
	if g, err := k.NodeGrant(""); err != nil || !g.Covers("anything") {
		t.Error(g, err)
	}
	if _, err := k.SessionGrant(""); err != nil {
		t.Error(err)
	}
}

func TestOperatorKeys(t *testing.T) {
	t.Parallel()
	k := keys(t)
	for key, want := range map[string]bool{operator: true, "": false, operator + "x": false, gpu: false, operator[:10]: false} {
		if k.IsOperator(key) != want {
			t.Errorf("IsOperator(%q) is %v", key, !want)
		}
	}
}

func TestNodeTokens(t *testing.T) {
	t.Parallel()
	k := keys(t)
	for _, c := range []struct {
		token  string
		node   core.NodeID
		covers bool
		tenant core.TenantID
	}{
		{gpu, "gpu-1", true, ""}, {gpu, "cpu-1", false, ""}, {acme, "a-1", true, "acme"}, {acme, "a-12", false, "acme"}, {operator, "any", true, ""},
	} {
		g, err := k.NodeGrant(c.token)
		if err != nil || g.Covers(c.node) != c.covers || g.Tenant != c.tenant {
			t.Errorf("%s for %s: %+v, %v", c.token, c.node, g, err)
		}
	}
	for _, token := range []string{"", "nope", gpu + " "} {
		if g, err := k.NodeGrant(token); err == nil {
			t.Errorf("%q is accepted as a node's token: %+v", token, g)
		}
	}
}

func TestSessionTokens(t *testing.T) {
	t.Parallel()
	k := keys(t)
	want := auth.SessionGrant{Session: "room-1", Tenant: "acme"}
	token, err := k.MintSession(want, time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := k.SessionGrant(token); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	old, err := k.MintSession(want, time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	sign := func(method jwt.SigningMethod, key any, c jwt.MapClaims) string {
		text, err := jwt.NewWithClaims(method, c).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	later := time.Now().Add(time.Minute).Unix()
	for name, bad := range map[string]string{
		"nothing": "", "no token": "nope", "expired": old, "of another secret": sign(jwt.SigningMethodHS256, []byte(strings.Repeat("x", 32)), jwt.MapClaims{"sub": "room-1", "aud": "lingua.session", "exp": later}),
		"of another method":    sign(jwt.SigningMethodHS512, []byte(secret), jwt.MapClaims{"sub": "room-1", "aud": "lingua.session", "exp": later}),
		"unsigned":             sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, jwt.MapClaims{"sub": "room-1", "aud": "lingua.session", "exp": later}),
		"for another audience": sign(jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"sub": "room-1", "aud": "others", "exp": later}),
		"without expiry":       sign(jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"sub": "room-1", "aud": "lingua.session"}),
		"without a session":    sign(jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"aud": "lingua.session", "exp": later}),
		"for a bad name":       sign(jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"sub": "a b", "aud": "lingua.session", "exp": later}),
		"a node's":             gpu, "changed": token[:len(token)-2] + "xx",
	} {
		if g, err := k.SessionGrant(bad); err == nil {
			t.Errorf("a token %s is accepted: %+v", name, g)
		}
	}
}

func TestInvalidCredentialsAreNamedAndNotQuoted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]auth.Config{
		"auth.operator_keys: key 2":   {OperatorKeys: []string{operator, "short-secret"}},
		"auth.node_tokens: entry 1":   {OperatorKeys: []string{operator}, NodeTokens: []string{"token-without-pattern"}},
		"auth.node_tokens: entry 2":   {OperatorKeys: []string{operator}, NodeTokens: []string{"a=" + gpu, "b=short-secret"}},
		"pattern of node names":       {OperatorKeys: []string{operator}, NodeTokens: []string{"[=" + gpu}},
		"cannot be sent":              {OperatorKeys: []string{"a key with spaces in it"}},
		"that no name can match":      {OperatorKeys: []string{operator}, NodeTokens: []string{"a b=" + gpu}},
		"a tenant that is not":        {OperatorKeys: []string{operator}, NodeTokens: []string{"gpu-*@=" + gpu}},
		"an operator's key too":       {OperatorKeys: []string{operator}, NodeTokens: []string{"gpu-*=" + operator}},
		"auth.session_secret":         {OperatorKeys: []string{operator}, Secret: "short-secret"},
		"auth.operator_keys: is empt": {Secret: secret},
	} {
		k, err := auth.New(c)
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "short-secret") {
			t.Errorf("%q: %v, %v", name, k, err)
		}
	}
}
