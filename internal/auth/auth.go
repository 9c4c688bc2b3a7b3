// Package auth checks credentials. There are three kinds: an operator's key, for everything; a node's token, for the nodes whose
// names match a pattern; and a session token, for one session, which an operator has minted so that a browser never holds a key.
// Without any credentials every caller is an operator: that is for a scheduler that only this machine can reach.
package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Config has the configured credentials.
type Config struct {
	OperatorKeys []string
	NodeTokens   []string // pattern=token, or pattern@tenant=token
	Secret       string   // signs session tokens
}

// minKeyLength is the minimum length of a key or a token.
const minKeyLength = 16

// Keys checks credentials. It holds only the hashes of keys and tokens.
type Keys struct {
	operators []digest
	nodes     []nodeToken
	secret    []byte
}

type digest = [sha256.Size]byte

type nodeToken struct {
	digest
	NodeGrant
}

// NodeGrant is what a node's token allows.
type NodeGrant struct {
	Pattern string        // of node names
	Tenant  core.TenantID // the tenant of the nodes; empty: all tenants
}

// SessionGrant is what a session token allows.
type SessionGrant struct {
	Session core.SessionID
	Tenant  core.TenantID
}

// ErrInvalid is returned for a credential that is invalid or has expired.
var ErrInvalid = errors.New("the credential is not valid")

// New parses the credentials. The error names the invalid ones without quoting them.
func New(c Config) (*Keys, error) {
	k := &Keys{secret: []byte(c.Secret)}
	var problems []error
	for i, key := range c.OperatorKeys {
		if e := checkKey(key); e != "" {
			problems = append(problems, fmt.Errorf("auth.operator_keys: key %d %s", i+1, e))
		}
		k.operators = append(k.operators, sha256.Sum256([]byte(key)))
	}
	for i, entry := range c.NodeTokens {
		n, err := parseNodeToken(entry)
		if err == nil && slices.Contains(k.operators, n.digest) {
			err = errors.New("has a token that is an operator's key too, which allows everything")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("auth.node_tokens: entry %d %w", i+1, err))
		}
		k.nodes = append(k.nodes, n)
	}
	if c.Secret != "" && len(c.Secret) < 2*minKeyLength {
		problems = append(problems, fmt.Errorf("auth.session_secret: is shorter than %d characters", 2*minKeyLength))
	}
	if len(k.operators) == 0 && (len(k.nodes) > 0 || len(k.secret) > 0) {
		problems = append(problems, errors.New("auth.operator_keys: is empty although there are other credentials: without it the scheduler cannot be operated"))
	}
	if problems != nil {
		return nil, errors.Join(problems...)
	}
	return k, nil
}

// checkKey returns what is wrong with a key or a token: it must be long enough, and valid in an HTTP header.
func checkKey(key string) string {
	if len(key) < minKeyLength {
		return fmt.Sprintf("is shorter than %d characters", minKeyLength)
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "has characters that cannot be sent: use printable ASCII without spaces"
	}
	return ""
}

// patternRunes are the characters of a pattern that are not characters of names.
const patternRunes = `*?[]\^-`

// parseNodeToken parses pattern=token or pattern@tenant=token.
func parseNodeToken(entry string) (nodeToken, error) {
	scope, token, ok := strings.Cut(entry, "=")
	pattern, tenant, scoped := strings.Cut(scope, "@")
	n := nodeToken{digest: sha256.Sum256([]byte(token)), NodeGrant: NodeGrant{Pattern: pattern, Tenant: core.TenantID(tenant)}}
	switch _, err := path.Match(pattern, ""); {
	case !ok || pattern == "":
		return n, errors.New("must be pattern=token or pattern@tenant=token, such as gpu-*=…")
	case err != nil || !core.ValidID(strings.Map(replacePatternRune, pattern)):
		return n, errors.New("has a pattern of node names that is invalid, or that no name can match")
	case scoped && !core.ValidID(tenant):
		return n, errors.New("has a tenant that is not a valid identifier")
	}
	if e := checkKey(token); e != "" {
		return n, errors.New("has a token that " + e)
	}
	return n, nil
}

// replacePatternRune replaces the special characters of a pattern, so that the rest of it can be checked as a name.
func replacePatternRune(r rune) rune {
	if strings.ContainsRune(patternRunes, r) {
		return 'x'
	}
	return r
}

// IsValid reports whether a token is valid for any purpose.
func (k *Keys) IsValid(token string) bool {
	if _, err := k.NodeGrant(token); err == nil {
		return true
	}
	_, err := k.SessionGrant(token)
	return err == nil
}

// Empty reports whether there are no credentials: every caller is an operator.
func (k *Keys) Empty() bool { return len(k.operators) == 0 }

// IsOperator reports whether a key is an operator's. The comparison takes constant time.
func (k *Keys) IsOperator(key string) bool {
	if k.Empty() {
		return true
	}
	sum := sha256.Sum256([]byte(key))
	ok := 0
	for i := range k.operators {
		ok |= subtle.ConstantTimeCompare(sum[:], k.operators[i][:])
	}
	return ok == 1
}

// NodeGrant returns what a token allows for nodes. An operator's key allows everything.
func (k *Keys) NodeGrant(token string) (NodeGrant, error) {
	if k.IsOperator(token) {
		return NodeGrant{Pattern: "*"}, nil
	}
	sum := sha256.Sum256([]byte(token))
	found := -1
	for i := range k.nodes {
		if subtle.ConstantTimeCompare(sum[:], k.nodes[i].digest[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return NodeGrant{}, ErrInvalid
	}
	return k.nodes[found].NodeGrant, nil
}

// Covers reports whether the grant is for a node of this name.
func (g NodeGrant) Covers(id core.NodeID) bool {
	ok, err := path.Match(g.Pattern, string(id))
	return ok && err == nil
}

// sessionAudience is the audience claim of session tokens.
const sessionAudience = "lingua.session"

type claims struct {
	jwt.RegisteredClaims
	Tenant string `json:"tenant,omitempty"`
}

// MintSession makes a token for one session.
func (k *Keys) MintSession(g SessionGrant, until time.Time) (string, error) {
	if len(k.secret) == 0 {
		return "", errors.New("auth.session_secret is not set")
	}
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Subject: string(g.Session), Audience: jwt.ClaimStrings{sessionAudience}, ExpiresAt: jwt.NewNumericDate(until),
		},
		Tenant: string(g.Tenant),
	})
	return token.SignedString(k.secret)
}

// SessionGrant returns what a token allows for sessions. An operator's key, or no credentials at all, allows any session.
func (k *Keys) SessionGrant(token string) (SessionGrant, error) {
	if k.IsOperator(token) {
		return SessionGrant{}, nil
	}
	if len(k.secret) == 0 {
		return SessionGrant{}, ErrInvalid
	}
	var c claims
	_, err := jwt.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return k.secret, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithAudience(sessionAudience), jwt.WithExpirationRequired())
	if err != nil || c.Subject == "" || !core.ValidID(c.Subject) {
		return SessionGrant{}, ErrInvalid
	}
	return SessionGrant{Session: core.SessionID(c.Subject), Tenant: core.TenantID(c.Tenant)}, nil
}
