package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

// A login is what a browser holds instead of a key: a token that the server makes of the key and that a page cannot read. Every instance
// with the same credentials verifies it without asking another.

// MaxLoginTTL is the maximum lifetime of a login.
const MaxLoginTTL = 30 * 24 * time.Hour

const (
	loginAudience = "lingua.login"
	// loginPurpose separates the secrets that sign logins from those that they are derived of.
	loginPurpose = "lingua login v1"
)

// loginRoles are the roles of keys that people may log in with.
var loginRoles = []Role{Operator, Viewer}

type loginClaims struct {
	jwt.RegisteredClaims
	// Secret identifies which secret of the key was used, so that a login ends when that secret is removed.
	Secret string `json:"sec"`
}

// Login is a new login.
type Login struct {
	Token  string
	Caller *Principal
}

// NewLogin makes a login of the secret of a key. The reason says why there is none.
func (a *Authenticator) NewLogin(secret string, ttl time.Duration) (Login, Reason) {
	p, reason := a.Authenticate(secret)
	ring := a.Keyring()
	switch {
	case reason != "":
		return Login{}, reason
	case !slices.Contains(loginRoles, p.Role) || ring.Empty():
		return Login{}, WrongRole
	}
	now := time.Now()
	sign := a.loginSecrets(ring)[0]
	c := loginClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: p.Key, Audience: jwt.ClaimStrings{loginAudience}, ID: uuid.NewString(),
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(min(ttl, MaxLoginTTL))),
		},
		Secret: secretID(sign, sha256.Sum256([]byte(secret))),
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(sign)
	if err != nil { // the claims are texts and times, which can be encoded
		panic(err)
	}
	return Login{token, loginPrincipal(ring.byName[p.Key], &c)}, ""
}

// AuthenticateLogin returns the caller of a login, or why there is none.
func (a *Authenticator) AuthenticateLogin(token string) (*Principal, Reason) {
	p, reason := a.parseLogin(token, time.Now())
	if reason == "" && a.revocations != nil && a.revocations.Revoked(p) {
		return nil, Revoked
	}
	return p, reason
}

func (a *Authenticator) parseLogin(token string, now time.Time) (*Principal, Reason) {
	ring := a.Keyring()
	if ring.Empty() {
		return anyone, ""
	}
	if len(token) > maxTokenLength {
		return nil, Malformed
	}
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithAudience(loginAudience), jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(func() time.Time { return now }),
		jwt.WithStrictDecoding(), // RFC 7515 has one encoding for a signature
	)
	for _, secret := range a.loginSecrets(ring) {
		var c loginClaims
		_, err := parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return secret, nil })
		switch {
		case err == nil:
			return ring.checkLogin(&c, secret, now)
		case errors.Is(err, jwt.ErrTokenMalformed):
			return nil, Malformed
		case errors.Is(err, jwt.ErrTokenExpired) && !errors.Is(err, jwt.ErrTokenSignatureInvalid):
			return nil, Expired
		}
	}
	return nil, Unknown
}

// checkLogin checks a login whose signature and expiry are valid: its key must still be valid, with the same secret.
func (k *Keyring) checkLogin(c *loginClaims, secret []byte, now time.Time) (*Principal, Reason) {
	own := k.byName[c.Issuer]
	if own == nil || c.IssuedAt == nil || c.ID == "" || c.ExpiresAt.Sub(c.IssuedAt.Time) > MaxLoginTTL {
		return nil, Unknown
	}
	if reason := own.check(now); reason != "" {
		return nil, reason
	}
	if c.IssuedAt.After(now.Add(clockSkew)) {
		return nil, NotYetValid
	}
	for sum, owner := range k.bySecret {
		if owner == own && hmac.Equal([]byte(secretID(secret, sum)), []byte(c.Secret)) {
			return loginPrincipal(own, c), ""
		}
	}
	return nil, Unknown
}

// loginPrincipal is the caller of a login: its key, since the login began.
func loginPrincipal(own *key, c *loginClaims) *Principal {
	p := own.Principal
	p.Issuer, p.TokenID, p.Issued, p.Expires = &own.Principal, c.ID, c.IssuedAt.Time, c.ExpiresAt.Time
	return &p
}

// loginSecrets returns the secrets of logins: the first signs, all verify. They are derived of secrets that all instances have. Without
// any, they are known to this process alone.
func (a *Authenticator) loginSecrets(ring *Keyring) [][]byte {
	var sources [][]byte
	if !a.localLogins {
		sources = slices.Clone(ring.cluster)
	}
	if len(sources) == 0 && ring.sign != nil && !a.localLogins {
		sources = append(sources, ring.sign.secret)
		for _, s := range ring.signers {
			if s != ring.sign {
				sources = append(sources, s.secret)
			}
		}
	}
	if len(sources) == 0 {
		sources = append(sources, a.local)
	}
	for i, source := range sources {
		mac := hmac.New(sha256.New, source)
		mac.Write([]byte(loginPurpose))
		sources[i] = mac.Sum(nil)
	}
	return sources
}

// SharesLogins reports whether a login is valid on every instance with the same credentials.
func (k *Keyring) SharesLogins() bool { return len(k.cluster) > 0 || k.sign != nil }

// secretID identifies a secret of a key, by its hash, to those who know the secret of logins.
func secretID(login []byte, sum digest) string {
	mac := hmac.New(sha256.New, login)
	mac.Write(sum[:])
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:12])
}

// newLocalSecret makes the secret of logins that no other instance accepts.
func newLocalSecret() []byte {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // it never fails
	return secret
}
