// Package auth says who a caller is and what kind of caller that is. A caller sends a key, which the configuration names, or a
// session token, which the holder of a key has minted so that a browser never holds a key. Without any credentials every caller is
// an operator: that is for a scheduler that only this machine can reach. The package also signs and checks requests between instances, and
// reads the certificates and authorities of TLS.
package auth

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Role is what a credential is for. The names are stable: they are in configurations, answers and audit entries.
type Role string

// The roles.
const (
	Operator Role = "operator" // everything
	Viewer   Role = "viewer"   // reads, but never the text of speech
	Metrics  Role = "metrics"  // reads metrics
	Minter   Role = "minter"   // mints, lists and ends sessions of a tenant, and dispatches its jobs
	Node     Role = "node"     // registers and serves as the nodes that its pattern names
	Session  Role = "session"  // one session
)

// keyRoles are the roles that a key can have. A session has a token.
var keyRoles = []Role{Operator, Viewer, Metrics, Minter, Node}

// Principal is an authenticated caller. It does not change.
type Principal struct {
	// Key is the name of the key; for a session, of the key that minted its token. It is empty when there are no credentials.
	Key    string
	Role   Role
	Tenant core.TenantID // whose objects the caller has access to; empty: see AllTenants
	// Issued is the not_before of a key, or when a token was minted. Revocations compare it.
	Issued time.Time

	Nodes    string        // role node: the pattern of node names
	Pool     core.PoolID   // role node: the capability pool of its nodes; empty: any
	MaxNodes int           // role node: how many nodes may be registered with the key; 0: any number
	MaxTTL   time.Duration // role minter: the maximum lifetime of a token

	Session core.SessionID // role session: the session that the token is for
	KID     string         // role session: the signer of the token
	TokenID string         // of a session or a login: the token's own id
	Issuer  *Principal     // of a session or a login: the key that the token was made with
	// Known is, for the role session, the time of the latest revocation that the instance knew which minted the token.
	Known   time.Time
	Expires time.Time // of a session or a login: when the token expires

	Anonymous bool // the request had no credential, and the configuration gives it the role
}

// IsLogin reports whether the caller has logged in with a key, and sends the login instead.
func (p *Principal) IsLogin() bool { return p.Role != Session && p.TokenID != "" }

// AllTenants reports whether the caller has access to the objects of every tenant. An operator or a viewer without a tenant has; a
// node without a tenant has none.
func (p *Principal) AllTenants() bool {
	return p.Tenant == "" && (p.Role == Operator || p.Role == Viewer || p.Role == Metrics)
}

// SeesTenant reports whether the caller has access to the objects of a tenant.
func (p *Principal) SeesTenant(t core.TenantID) bool { return p.AllTenants() || p.Tenant == t }

// SeesText reports whether the caller may read what was said. Who reads it is audited, so it must have a name.
func (p *Principal) SeesText() bool { return (p.Role == Operator || p.Role == Minter) && !p.Anonymous }

// ActsForNode reports whether the caller may register and report as a node of this name.
func (p *Principal) ActsForNode(id core.NodeID) bool {
	return p.Role == Operator || p.Role == Node && MatchNode(p.Nodes, id)
}
