// Package auth knows who may do what. There are three kinds of credential: an operator's key, for everything; a node's
// token, for nodes of certain names; and a session's token, for one conversation, which an operator has minted so that a
// browser never holds a key. Without any, everybody is an operator: that is for a scheduler that only this machine can
// reach.
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

// Config is the credentials.
type Config struct {
	OperatorKeys []string
	NodeTokens   []string // pattern=token, or pattern@tenant=token
	Secret       string   // signs session tokens
}

// shortest is how short a secret may be.
const shortest = 16

// Keys checks credentials. Of keys and tokens it holds only what they hash to.
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
	Pattern string        // of the names of nodes
	Tenant  core.TenantID // whose nodes they are; empty: everybody's
}

// SessionGrant is what a session's token allows.
type SessionGrant struct {
	Session core.SessionID
	Tenant  core.TenantID
}

// ErrRefused says that a credential is not one, or not any more.
var ErrRefused = errors.New("the credential is not valid")

// New reads the credentials. The error says which ones are wrong, and not what they are.
func New(c Config) (*Keys, error) {
	k := &Keys{secret: []byte(c.Secret)}
	var wrong []error
	for i, key := range c.OperatorKeys {
		if e := sendable(key); e != "" {
			wrong = append(wrong, fmt.Errorf("auth.operator_keys: key %d %s", i+1, e))
		}
		k.operators = append(k.operators, sha256.Sum256([]byte(key)))
	}
	for i, line := range c.NodeTokens {
		n, err := parseNodeToken(line)
		if err == nil && slices.Contains(k.operators, n.digest) {
			err = errors.New("has a token that is an operator's key too: whoever has it could do everything")
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("auth.node_tokens: entry %d %w", i+1, err))
		}
		k.nodes = append(k.nodes, n)
	}
	if c.Secret != "" && len(c.Secret) < 2*shortest {
		wrong = append(wrong, fmt.Errorf("auth.session_secret: is shorter than %d characters", 2*shortest))
	}
	if len(k.operators) == 0 && (len(k.nodes) > 0 || len(k.secret) > 0) {
		wrong = append(wrong, errors.New("auth.operator_keys: is empty although there are other credentials: nobody could operate the scheduler"))
	}
	if wrong != nil {
		return nil, errors.Join(wrong...)
	}
	return k, nil
}

// sendable says what is wrong with a key or a token: it has to be long, and to go through a header.
func sendable(key string) string {
	if len(key) < shortest {
		return fmt.Sprintf("is shorter than %d characters", shortest)
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "has characters that cannot be sent: use letters, digits and signs of ASCII, and no spaces"
	}
	return ""
}

// patternRunes are what a pattern of node names can be made of, beside what names are.
const patternRunes = `*?[]\^-`

func parseNodeToken(line string) (nodeToken, error) {
	scope, token, ok := strings.Cut(line, "=")
	pattern, tenant, scoped := strings.Cut(scope, "@")
	n := nodeToken{digest: sha256.Sum256([]byte(token)), NodeGrant: NodeGrant{Pattern: pattern, Tenant: core.TenantID(tenant)}}
	switch _, err := path.Match(pattern, ""); {
	case !ok || pattern == "":
		return n, errors.New("must be pattern=token or pattern@tenant=token, such as gpu-*=…")
	case err != nil || !core.ValidID(strings.Map(plain, pattern)):
		return n, errors.New("has a pattern of node names that is not one, or that no name can match")
	case scoped && !core.ValidID(tenant):
		return n, errors.New("has a tenant that is not a name")
	}
	if e := sendable(token); e != "" {
		return n, errors.New("has a token that " + e)
	}
	return n, nil
}

// plain makes of a pattern something that is a name if the rest of it can be.
func plain(r rune) rune {
	if strings.ContainsRune(patternRunes, r) {
		return 'x'
	}
	return r
}

// Known reports whether a token is valid for something.
func (k *Keys) Known(token string) bool {
	if _, err := k.Node(token); err == nil {
		return true
	}
	_, err := k.Session(token)
	return err == nil
}

// Open reports whether there are no credentials: everybody is an operator.
func (k *Keys) Open() bool { return len(k.operators) == 0 }

// Operator reports whether a key is an operator's.
func (k *Keys) Operator(key string) bool {
	if k.Open() {
		return true
	}
	sum := sha256.Sum256([]byte(key))
	ok := 0
	for i := range k.operators {
		ok |= subtle.ConstantTimeCompare(sum[:], k.operators[i][:])
	}
	return ok == 1
}

// Node returns what a token allows of nodes. An operator's key allows everything.
func (k *Keys) Node(token string) (NodeGrant, error) {
	if k.Operator(token) {
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
		return NodeGrant{}, ErrRefused
	}
	return k.nodes[found].NodeGrant, nil
}

// Covers reports whether a node of this name is meant.
func (g NodeGrant) Covers(id core.NodeID) bool {
	ok, err := path.Match(g.Pattern, string(id))
	return ok && err == nil
}

// audience is whom session tokens are made for.
const audience = "lingua.session"

type claims struct {
	jwt.RegisteredClaims
	Tenant string `json:"tenant,omitempty"`
}

// Mint makes a token for one session.
func (k *Keys) Mint(g SessionGrant, until time.Time) (string, error) {
	if len(k.secret) == 0 {
		return "", errors.New("auth.session_secret is not set")
	}
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Subject: string(g.Session), Audience: jwt.ClaimStrings{audience}, ExpiresAt: jwt.NewNumericDate(until),
		},
		Tenant: string(g.Tenant),
	})
	return token.SignedString(k.secret)
}

// Session returns what a token allows of sessions. Where everybody is an operator nobody needs one, and an operator's
// key allows any session.
func (k *Keys) Session(token string) (SessionGrant, error) {
	if k.Operator(token) {
		return SessionGrant{}, nil
	}
	if len(k.secret) == 0 {
		return SessionGrant{}, ErrRefused
	}
	var c claims
	_, err := jwt.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return k.secret, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithAudience(audience), jwt.WithExpirationRequired())
	if err != nil || c.Subject == "" || !core.ValidID(c.Subject) {
		return SessionGrant{}, ErrRefused
	}
	return SessionGrant{Session: core.SessionID(c.Subject), Tenant: core.TenantID(c.Tenant)}, nil
}
