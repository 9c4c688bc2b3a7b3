package auth

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/internal/core"
)

const (
	// sessionAudience is the audience claim of session tokens.
	sessionAudience = "lingua.session"
	// maxTokenLength is the maximum length of a key or a token. A longer one is not looked at.
	maxTokenLength = 4 << 10
	// clockSkew is by how much the clocks of two instances may differ.
	clockSkew = time.Minute
)

// tokenHeaders are the header parameters that a token may have. Every other one is refused: crit would change what the token
// means, and jku, jwk and x5u would name another key.
var tokenHeaders = map[string]bool{"alg": true, "typ": true, "kid": true}

type claims struct {
	jwt.RegisteredClaims
	Tenant string `json:"tenant,omitempty"`
	// Known is the time of the latest revocation that the instance knew which minted the token, in microseconds; 0: it knew none.
	Known int64 `json:"rvk,omitempty"`
}

// ErrNoSigner says that no session tokens can be minted.
var ErrNoSigner = errors.New("no secret for session tokens is configured")

// MintSession makes a token for one session, in the name of a key, on an instance that knows the revocations up to a time.
func (k *Keyring) MintSession(
	by *Principal, session core.SessionID, tenant core.TenantID, ttl time.Duration, known time.Time,
) (token string, expires time.Time, err error) {
	if k.sign == nil {
		return "", time.Time{}, ErrNoSigner
	}
	now := time.Now()
	expires = now.Add(ttl).Truncate(time.Second) // a token has a resolution of seconds
	c := claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: by.Key, Subject: string(session), Audience: jwt.ClaimStrings{sessionAudience},
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(expires), ID: uuid.NewString(),
		},
		Tenant: string(tenant),
	}
	if !known.IsZero() {
		c.Known = known.UnixMicro()
	}
	t := jwt.NewWithClaims(jwt.SigningMethodHS256, c)
	t.Header["kid"] = k.sign.kid
	token, err = t.SignedString(k.sign.secret)
	return token, expires, err
}

// parseSession returns the caller of a session token.
func (k *Keyring) parseSession(token string, now time.Time) (*Principal, Reason) {
	var c claims
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithAudience(sessionAudience), jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(func() time.Time { return now }),
		jwt.WithStrictDecoding(), // RFC 7515 has one encoding for a signature
	)
	kid := ""
	_, err := parser.ParseWithClaims(token, &c, func(t *jwt.Token) (any, error) {
		s, err := k.signerOf(t)
		if err != nil {
			return nil, err
		}
		kid = s.kid
		return s.secret, nil
	})
	switch {
	case errors.Is(err, jwt.ErrTokenExpired) && !errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return nil, Expired
	case errors.Is(err, jwt.ErrTokenMalformed):
		return nil, Malformed
	case err != nil:
		return nil, Unknown
	}
	return k.checkClaims(&c, kid, now)
}

// signerOf returns the signer that a token names.
func (k *Keyring) signerOf(t *jwt.Token) (*signer, error) {
	for name := range t.Header {
		if !tokenHeaders[name] {
			return nil, fmt.Errorf("%w: a header that is not known", jwt.ErrTokenMalformed)
		}
	}
	kid := shortFormKID
	if value, named := t.Header["kid"]; named {
		kid, _ = value.(string)
	}
	if s := k.signers[kid]; s != nil {
		return s, nil
	}
	return nil, jwt.ErrTokenUnverifiable
}

// checkClaims checks the claims of a token whose signature and expiry are valid.
func (k *Keyring) checkClaims(c *claims, kid string, now time.Time) (*Principal, Reason) {
	if !core.ValidID(c.Subject) || c.Tenant != "" && !core.ValidID(c.Tenant) || c.IssuedAt == nil {
		return nil, Malformed
	}
	issued, expires := c.IssuedAt.Time, c.ExpiresAt.Time
	issuer := k.byName[c.Issuer]
	switch {
	case issuer == nil || issuer.Role != Minter && issuer.Role != Operator:
		return nil, Unknown
	case issuer.Role == Minter && string(issuer.Tenant) != c.Tenant:
		return nil, WrongTenant
	case issued.After(now.Add(clockSkew)):
		return nil, NotYetValid
	case expires.Sub(issued) > min(MaxTokenTTL, maxTTL(issuer))+time.Second: // both are in whole seconds
		return nil, Malformed
	}
	p := &Principal{
		Key: issuer.Key, Role: Session, Tenant: core.TenantID(c.Tenant), Issued: issued,
		Session: core.SessionID(c.Subject), KID: kid, TokenID: c.ID, Expires: expires, Issuer: &issuer.Principal,
	}
	if c.Known > 0 {
		p.Known = time.UnixMicro(c.Known)
	}
	return p, ""
}

// maxTTL is the maximum lifetime of the tokens that a key mints.
func maxTTL(k *key) time.Duration {
	if k.MaxTTL > 0 {
		return k.MaxTTL
	}
	return MaxTokenTTL
}
