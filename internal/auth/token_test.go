package auth_test

import (
	"crypto/rand"
	"crypto/rsa"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
)

func TestSessionTokens(t *testing.T) {
	t.Parallel()
	ring := keyring(t, config())
	minter := authenticate(t, ring, minterKey)
	p := authenticate(t, ring, mint(t, ring, minter, "acme", time.Minute))
	if p.Role != auth.Session || p.Session != "room-1" || p.Tenant != "acme" || p.Key != "acme-backend" || p.KID != "2026-11" || p.TokenID == "" ||
		time.Until(p.Expires) > time.Minute || time.Since(p.Issued) > 5*time.Second {
		t.Errorf("%+v", p)
	}
	if p.SeesText() || p.ActsForNode("gpu-1") || p.AllTenants() {
		t.Errorf("a session may do too much: %+v", p)
	}
	operator := authenticate(t, ring, operatorKey)
	if p := authenticate(t, ring, mint(t, ring, operator, "beta", 24*time.Hour)); p.Tenant != "beta" || p.Key != "operator_keys" {
		t.Errorf("%+v", p)
	}
}

// TestRotationOfSigners: a signer verifies everywhere before it signs, and its predecessor verifies until its tokens have expired.
func TestRotationOfSigners(t *testing.T) {
	t.Parallel()
	old, next := keyring(t, config()), config()
	next.Signers[0].Use, next.Signers[1].Use = auth.UseVerify, auth.UseSign
	rotated := keyring(t, next)
	operator := authenticate(t, old, operatorKey)
	for _, ring := range []*auth.Keyring{old, rotated} {
		authenticate(t, ring, mint(t, old, operator, "", time.Minute))
		authenticate(t, ring, mint(t, rotated, operator, "", time.Minute))
	}
	next.Signers = next.Signers[1:]
	if _, reason := auth.NewAuthenticator(keyring(t, next), nil).Authenticate(mint(t, old, operator, "", time.Minute)); reason != auth.Unknown {
		t.Errorf("a token of a signer that was removed: %q", reason)
	}
}

// TestShortFormSecretVerifiesBesideSigners: tokens of the short form stay valid while its user moves to signers.
func TestShortFormSecretVerifiesBesideSigners(t *testing.T) {
	t.Parallel()
	short := keyring(t, auth.Config{OperatorKeys: []string{operatorKey}, SessionSecret: secret})
	c := auth.Config{OperatorKeys: []string{operatorKey}, SessionSecret: secret, Signers: []auth.SignerConfig{{KID: "new", Use: auth.UseSign, Secret: nextSecret}}}
	both := keyring(t, c)
	operator := authenticate(t, short, operatorKey)
	authenticate(t, both, mint(t, short, operator, "", time.Minute))
	if p := authenticate(t, both, mint(t, both, operator, "", time.Minute)); p.KID != "new" {
		t.Errorf("signed by %s", p.KID)
	}
}

// forgery is a token that must be refused.
type forgery struct {
	name   string
	method jwt.SigningMethod
	key    any
	header map[string]any
	claims jwt.MapClaims
}

// forgedTokens are the known ways to forge a token, most of them with a signature that would be valid.
func forgedTokens(rsaKey *rsa.PrivateKey) []forgery {
	now := time.Now()
	with := func(change jwt.MapClaims) jwt.MapClaims {
		c := jwt.MapClaims{
			"iss": "acme-backend", "sub": "room-1", "aud": "lingua.session", "tenant": "acme", "jti": "1",
			"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
		}
		for name, value := range change {
			if c[name] = value; value == nil {
				delete(c, name)
			}
		}
		return c
	}
	kid := map[string]any{"kid": "2026-11"}
	header := func(name string, value any) map[string]any { return map[string]any{"kid": "2026-11", name: value} }
	hs256 := jwt.SigningMethodHS256
	return []forgery{
		{"unsigned", jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, kid, with(nil)},
		{"of another HMAC", jwt.SigningMethodHS512, []byte(secret), kid, with(nil)},
		{"of an RSA key", jwt.SigningMethodRS256, rsaKey, kid, with(nil)},
		{"of another secret", hs256, []byte(strings.Repeat("x", 32)), kid, with(nil)},
		{"of an empty secret", hs256, []byte{}, kid, with(nil)},
		{"of a key's secret", hs256, []byte(minterKey), kid, with(nil)},
		{"of the hash of a key", hs256, []byte(hash(minterKey)), kid, with(nil)},
		{"with the kid of another signer", hs256, []byte(secret), map[string]any{"kid": "2026-12"}, with(nil)},
		{"with an unknown kid", hs256, []byte(secret), map[string]any{"kid": "2020-01"}, with(nil)},
		{"with a path as kid", hs256, []byte(secret), map[string]any{"kid": "../../dev/null"}, with(nil)},
		{"with a number as kid", hs256, []byte(secret), map[string]any{"kid": 1}, with(nil)},
		{"with an empty kid", hs256, []byte(secret), map[string]any{"kid": ""}, with(nil)},
		{"without a kid", hs256, []byte(secret), map[string]any{}, with(nil)},
		{"with crit", hs256, []byte(secret), header("crit", []string{"exp"}), with(nil)},
		{"with an empty crit", hs256, []byte(secret), header("crit", []string{}), with(nil)},
		{"with jku", hs256, []byte(secret), header("jku", "http://127.0.0.1/keys"), with(nil)},
		{"with jwk", hs256, []byte(secret), header("jwk", map[string]any{"kty": "oct", "k": "AA"}), with(nil)},
		{"with x5u", hs256, []byte(secret), header("x5u", "http://127.0.0.1/cert"), with(nil)},
		{"with b64", hs256, []byte(secret), header("b64", false), with(nil)},
		{"expired", hs256, []byte(secret), kid, with(jwt.MapClaims{"iat": now.Add(-time.Hour).Unix(), "exp": now.Add(-time.Second).Unix()})},
		{"without exp", hs256, []byte(secret), kid, with(jwt.MapClaims{"exp": nil})},
		{"with a far exp", hs256, []byte(secret), kid, with(jwt.MapClaims{"exp": now.Add(2 * time.Hour).Unix()})},
		{"with exp as a text", hs256, []byte(secret), kid, with(jwt.MapClaims{"exp": "tomorrow"})},
		{"with an infinite exp", hs256, []byte(secret), kid, with(jwt.MapClaims{"exp": 1e300})},
		{"without iat", hs256, []byte(secret), kid, with(jwt.MapClaims{"iat": nil})},
		{"with iat in the future", hs256, []byte(secret), kid, with(jwt.MapClaims{"iat": now.Add(time.Hour).Unix(), "exp": now.Add(90 * time.Minute).Unix()})},
		{"with an early iat and a far exp", hs256, []byte(secret), kid, with(jwt.MapClaims{"iat": 0})},
		{"not valid yet", hs256, []byte(secret), kid, with(jwt.MapClaims{"nbf": now.Add(time.Hour).Unix()})},
		{"for another audience", hs256, []byte(secret), kid, with(jwt.MapClaims{"aud": "others"})},
		{"without an audience", hs256, []byte(secret), kid, with(jwt.MapClaims{"aud": nil})},
		{"without an issuer", hs256, []byte(secret), kid, with(jwt.MapClaims{"iss": nil})},
		{"of an unknown issuer", hs256, []byte(secret), kid, with(jwt.MapClaims{"iss": "nobody"})},
		{"of an issuer that may not mint", hs256, []byte(secret), kid, with(jwt.MapClaims{"iss": "grafana"})},
		{"of a node as issuer", hs256, []byte(secret), kid, with(jwt.MapClaims{"iss": nodeTokenName(acmeToken)})},
		{"for another tenant", hs256, []byte(secret), kid, with(jwt.MapClaims{"tenant": "beta"})},
		{"without the minter's tenant", hs256, []byte(secret), kid, with(jwt.MapClaims{"tenant": nil})},
		{"with an invalid tenant", hs256, []byte(secret), kid, with(jwt.MapClaims{"iss": "operator_keys", "tenant": "a b"})},
		{"without a session", hs256, []byte(secret), kid, with(jwt.MapClaims{"sub": nil})},
		{"for an invalid name", hs256, []byte(secret), kid, with(jwt.MapClaims{"sub": "a b"})},
		{"of a megabyte", hs256, []byte(secret), kid, with(jwt.MapClaims{"x": strings.Repeat("x", 1<<20)})},
	}
}

// TestForgedTokensAreRefused tries the known ways to forge a JWT, with a signature that would be valid where that is possible.
func TestForgedTokensAreRefused(t *testing.T) {
	t.Parallel()
	ring := keyring(t, config())
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	forgeries := forgedTokens(rsaKey)
	sign := func(f *forgery) string {
		token := jwt.NewWithClaims(f.method, f.claims)
		for name, value := range f.header {
			token.Header[name] = value
		}
		text, err := token.SignedString(f.key)
		if err != nil {
			t.Fatal(f.name, err)
		}
		return text
	}
	valid := mint(t, ring, authenticate(t, ring, minterKey), "acme", time.Minute)
	tokens := map[string]string{
		"without its signature": valid[:strings.LastIndex(valid, ".")+1], "of dots": "..",
		"with a fourth part": valid + ".e30", "of no base64": "a.b.c", "with a space": valid + " ", "in quotes": `"` + valid + `"`,
		"with padding": valid + "==", "twice": valid + valid,
	}
	// The last character of a signature has four bits of it and two that mean nothing: some of these have the bytes of the valid signature.
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
		if changed := valid[:len(valid)-1] + string(c); changed != valid {
			tokens["that ends in "+string(c)] = changed
		}
	}
	for i := range forgeries {
		tokens[forgeries[i].name] = sign(&forgeries[i])
	}
	a := auth.NewAuthenticator(ring, nil)
	if _, reason := a.Authenticate(valid); reason != "" {
		t.Fatalf("the valid token is refused: %s", reason)
	}
	for name, token := range tokens {
		if p, reason := a.Authenticate(token); reason == "" {
			t.Errorf("a token %s is accepted: %+v", name, p)
		}
	}
}

// revokedKeys revokes keys by name.
type revokedKeys map[string]bool

func (r revokedKeys) Revoked(p *auth.Principal) bool { return r[p.Key] }

func TestRevokedCallers(t *testing.T) {
	t.Parallel()
	ring := keyring(t, config())
	a := auth.NewAuthenticator(ring, revokedKeys{"acme-backend": true})
	token := mint(t, ring, authenticate(t, ring, minterKey), "acme", time.Minute)
	for _, credential := range []string{minterKey, token} {
		if _, reason := a.Authenticate(credential); reason != auth.Revoked {
			t.Errorf("%q", reason)
		}
	}
	if _, reason := a.Authenticate(operatorKey); reason != "" {
		t.Errorf("another key: %q", reason)
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	ring, err := auth.NewKeyring(config())
	if err != nil {
		b.Fatal(err)
	}
	a := auth.NewAuthenticator(ring, nil)
	operator, _ := a.Authenticate(operatorKey)
	token, _, err := ring.MintSession(operator, "room-1", core.TenantID("acme"), time.Hour, time.Time{})
	if err != nil {
		b.Fatal(err)
	}
	for name, credential := range map[string]string{"key": operatorKey, "token": token} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, reason := a.Authenticate(credential); reason != "" {
					b.Fatal(reason)
				}
			}
		})
	}
}
