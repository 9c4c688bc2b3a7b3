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

// New reads the credentials. The error says which one is wrong, and not what it is.
func New(c Config) (*Keys, error) {
	k := &Keys{secret: []byte(c.Secret)}
	for i, key := range c.OperatorKeys {
		if len(key) < shortest {
			return nil, fmt.Errorf("auth.operator_keys: key %d is shorter than %d characters", i+1, shortest)
		}
		k.operators = append(k.operators, sha256.Sum256([]byte(key)))
	}
	for i, line := range c.NodeTokens {
		n, err := parseNodeToken(line)
		if err != nil {
			return nil, fmt.Errorf("auth.node_tokens: entry %d %w", i+1, err)
		}
		k.nodes = append(k.nodes, n)
	}
	if c.Secret != "" && len(c.Secret) < 2*shortest {
		return nil, fmt.Errorf("auth.session_secret: is shorter than %d characters", 2*shortest)
	}
	if len(k.operators) == 0 && (len(k.nodes) > 0 || len(k.secret) > 0) {
		return nil, errors.New("auth.operator_keys: is empty although there are other credentials: nobody could operate the scheduler")
	}
	return k, nil
}

func parseNodeToken(line string) (nodeToken, error) {
	scope, token, ok := strings.Cut(line, "=")
	pattern, tenant, _ := strings.Cut(scope, "@")
	n := nodeToken{digest: sha256.Sum256([]byte(token)), NodeGrant: NodeGrant{Pattern: pattern, Tenant: core.TenantID(tenant)}}
	switch _, err := path.Match(pattern, ""); {
	case !ok || pattern == "":
		return n, errors.New("must be pattern=token or pattern@tenant=token, such as gpu-*=…")
	case err != nil:
		return n, errors.New("has a pattern of node names that is not one")
	case tenant != "" && !core.ValidID(tenant):
		return n, errors.New("has a tenant that is not a name")
	case len(token) < shortest:
		return n, fmt.Errorf("has a token shorter than %d characters", shortest)
	}
	return n, nil
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
