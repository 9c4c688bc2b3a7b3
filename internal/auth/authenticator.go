package auth

import (
	"crypto/sha256"
	"strings"
	"sync/atomic"
	"time"
)

// Reason is why a credential was refused. It is for audit entries and counters: an answer does not tell a stranger how close a
// guess was.
type Reason string

// The reasons.
const (
	Missing     Reason = "missing"
	Unknown     Reason = "unknown"
	Malformed   Reason = "malformed"
	NotYetValid Reason = "not_yet_valid"
	Expired     Reason = "expired"
	Revoked     Reason = "revoked"
	WrongRole   Reason = "wrong_role"
	WrongTenant Reason = "wrong_tenant"
	WrongNode   Reason = "wrong_node"
	WrongObject Reason = "wrong_object"
	NodeSecret  Reason = "node_secret"
)

// Revocations says which callers are revoked.
type Revocations interface {
	Revoked(p *Principal) bool
}

// Authenticator authenticates callers with the keyring that is in force, which can be replaced.
type Authenticator struct {
	ring        atomic.Pointer[Keyring]
	revocations Revocations
	local       []byte // the secret of logins, if no secret is configured, or logins end with this process
	localLogins bool   // logins end with this process
}

// NewAuthenticator makes an authenticator. Without revocations, nil, no caller is revoked.
func NewAuthenticator(ring *Keyring, revocations Revocations) *Authenticator {
	a := &Authenticator{revocations: revocations, local: newLocalSecret()}
	a.ring.Store(ring)
	return a
}

// EndLoginsWithProcess makes logins valid in this process only, because it alone knows which of them were ended. Call it before the first
// login.
func (a *Authenticator) EndLoginsWithProcess() { a.localLogins = true }

// Keyring returns the keyring that is in force.
func (a *Authenticator) Keyring() *Keyring { return a.ring.Load() }

// Replace puts another keyring in force.
func (a *Authenticator) Replace(ring *Keyring) { a.ring.Store(ring) }

// anyone is every caller of a scheduler without credentials.
var anyone = &Principal{Role: Operator}

// Authenticate returns the caller that sent a token, or why there is none.
func (a *Authenticator) Authenticate(token string) (*Principal, Reason) {
	p, reason := a.Keyring().authenticate(token, time.Now())
	if reason == "" && a.revocations != nil && a.revocations.Revoked(p) {
		return nil, Revoked
	}
	return p, reason
}

// authenticate looks a secret up by its hash: how long that takes depends on the hash, which says nothing about
// the secret.
func (k *Keyring) authenticate(token string, now time.Time) (*Principal, Reason) {
	if k.Empty() {
		return anyone, ""
	}
	switch {
	case token == "":
		return nil, Missing
	case len(token) > maxTokenLength:
		return nil, Malformed
	}
	if key := k.bySecret[sha256.Sum256([]byte(token))]; key != nil {
		if reason := key.check(now); reason != "" {
			return nil, reason
		}
		return &key.Principal, ""
	}
	if strings.Count(token, ".") == 2 {
		return k.parseSession(token, now)
	}
	return nil, Unknown
}

// check returns why a key is not valid now.
func (k *key) check(now time.Time) Reason {
	switch {
	case now.Before(k.Issued):
		return NotYetValid
	case !k.notAfter.IsZero() && !now.Before(k.notAfter):
		return Expired
	}
	return ""
}
