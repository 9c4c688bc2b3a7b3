package auth_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
)

const (
	operatorKey = "operator-key-0123456789"
	minterKey   = "minter-key-of-acme-0123456789"
	minterNext  = "minter-key-of-acme-new-0123456789"
	viewerKey   = "viewer-key-0123456789"
	metricsKey  = "metrics-key-0123456789"
	gpuToken    = "gpu-token-0123456789"
	acmeToken   = "acme-token-0123456789"
	secret      = "a-secret-of-at-least-32-characters"
	nextSecret  = "another-secret-of-32-characters-or-more"
)

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// config has a credential of every kind.
func config() auth.Config {
	return auth.Config{
		OperatorKeys: []string{operatorKey}, NodeTokens: []string{"gpu-*=" + gpuToken, "a-?@acme=" + acmeToken},
		Keys: []auth.KeyConfig{
			{Name: "acme-backend", Role: auth.Minter, Tenant: "acme", SHA256: []string{hash(minterKey), hash(minterNext)}, MaxTTL: time.Hour},
			{Name: "grafana", Role: auth.Viewer, Secrets: []string{viewerKey}},
			{Name: "prometheus", Role: auth.Metrics, Secrets: []string{metricsKey}},
		},
		Signers: []auth.SignerConfig{{KID: "2026-11", Use: auth.UseSign, Secret: secret}, {KID: "2026-12", Use: auth.UseVerify, Secret: nextSecret}},
	}
}

// keyring makes a keyring of a configuration that must be valid.
func keyring(t *testing.T, c auth.Config) *auth.Keyring {
	t.Helper()
	ring, err := auth.NewKeyring(c)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// authenticate authenticates a token that must be accepted.
func authenticate(t *testing.T, ring *auth.Keyring, token string) *auth.Principal {
	t.Helper()
	p, reason := auth.NewAuthenticator(ring, nil).Authenticate(token)
	if reason != "" {
		t.Fatalf("a token is refused: %s", reason)
	}
	return p
}

// mint mints a token for room-1 of a tenant.
func mint(t *testing.T, ring *auth.Keyring, by *auth.Principal, tenant core.TenantID, ttl time.Duration) string {
	t.Helper()
	token, _, err := ring.MintSession(by, "room-1", tenant, ttl, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return token
}
