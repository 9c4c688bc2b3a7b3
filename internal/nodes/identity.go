package nodes

import (
	"context"
	"errors"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// The length of a secret that a node chooses.
const (
	minSecret = 16
	maxSecret = 128
)

// ValidSecret reports whether a text can be the secret of a node.
func ValidSecret(secret string) bool { return len(secret) >= minSecret && len(secret) <= maxSecret }

// Proof is what a caller shows to act for a node without a connection of the node.
type Proof struct {
	Secret string // of the node's registration; empty: none
	// Tenant is the tenant of the caller's key; nil: the caller may act for the nodes of all tenants.
	Tenant *core.TenantID
}

// Verifier checks that a caller is the node that it reports for.
type Verifier struct {
	Fleet *fleet.Fleet
	Nodes store.NodeReader
	// RequireSecret refuses callers that show no secret. A wrong one is always refused.
	RequireSecret bool
}

// Check returns an error unless the caller is the node. A node that is not registered passes: there is nothing that it could act on.
func (v *Verifier) Check(ctx context.Context, id core.NodeID, p Proof) error {
	var declared *core.Node
	if n := v.Fleet.Node(id); n != nil {
		declared = n.Declared()
	}
	if declared != nil && v.isProof(declared, p) {
		return nil
	}
	// The node may have registered on another instance a moment ago.
	status, err := v.Nodes.Node(ctx, id)
	switch {
	case errors.Is(err, store.ErrNoNode):
		return nil
	case err != nil:
		return store.Unavailable()
	case v.isProof(status.Node, p):
		return nil
	case p.Tenant != nil && *p.Tenant != status.Node.Tenant:
		return wire.FieldErrorf(wire.Forbidden, "node_id", "this key is not for a node of this name")
	}
	return wire.FieldErrorf(wire.Forbidden, "node_token", "this is not the node_token of the last registration of node %s: send that one, or register again", id)
}

// isProof reports whether a proof is that of a node.
func (v *Verifier) isProof(n *core.Node, p Proof) bool {
	if p.Tenant != nil && *p.Tenant != n.Tenant {
		return false
	}
	if p.Secret == "" {
		return !v.RequireSecret
	}
	return n.HasSecret(p.Secret)
}

// checkNumber refuses a node if as many as its key allows are registered with the key. It counts the nodes that this instance sees: two
// instances that register at the same moment may exceed the number for a while.
func checkNumber(f *fleet.Fleet, id core.NodeID, p *Patch) *wire.Error {
	if p.MaxNodes == 0 || p.Key == nil {
		return nil
	}
	registered := 0
	for n := range f.All() {
		declared := n.Declared()
		if declared.ID != id && declared.Key == *p.Key && declared.Health != core.HealthOffline {
			registered++
		}
	}
	if registered < p.MaxNodes {
		return nil
	}
	return wire.FieldErrorf(wire.RateLimited, "node_id", "%d nodes are registered with this key, which is its maximum (max_nodes): stop one, or use another key", registered).RetryIn(nameRetry)
}
