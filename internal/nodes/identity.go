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
	Secret string     // of the node's registration; empty: none
	Epoch  core.Epoch // that the caller names; 0: none
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

// Check returns the registration of the node, unless the caller is not the node. It returns nil for a node that is not registered.
func (v *Verifier) Check(ctx context.Context, id core.NodeID, p Proof) (*core.Node, error) {
	var known *core.Node
	if n := v.Fleet.Node(id); n != nil {
		known = n.Declared()
	}
	// Where secrets are required a caller acts for the registration whose secret it shows: the current one, which the store knows.
	if known != nil && v.isProof(known, p) && (p.Epoch == known.Epoch || !v.RequireSecret) {
		return known, nil
	}
	// The node may have registered on another instance a moment ago.
	status, err := store.ReadNode(ctx, v.Nodes, id)
	switch {
	case err == nil:
		known = status.Node
	case !errors.Is(err, store.ErrNoNode):
		return nil, store.Unavailable()
	case known == nil:
		return nil, nil
	} // else the store has lost it, and the fleet still knows whose name it is
	switch {
	case v.isProof(known, p):
		return known, nil
	case p.Tenant != nil && *p.Tenant != known.Tenant:
		return nil, wire.FieldErrorf(wire.Forbidden, "node_id", "this key is not for a node of this name")
	}
	return nil, wire.FieldErrorf(wire.Forbidden, "node_token",
		"this is not the node_token of the last registration of node %s: send that one, or register again", id)
}

// CheckReport checks that the caller is the node that it reports for, and returns the epoch that the report is about. Where secrets are
// required that is the one whose secret the caller has shown, and a node that is not registered cannot report.
func (v *Verifier) CheckReport(ctx context.Context, id core.NodeID, p Proof) (core.Epoch, error) {
	known, err := v.Check(ctx, id, p)
	switch {
	case err != nil:
		return 0, err
	case !v.RequireSecret:
		return p.Epoch, nil
	case known == nil:
		return 0, wire.FieldErrorf(wire.NotFound, "node_id",
			"no node %s is registered; register again with POST /v1/node/register, and drop the job", id)
	case p.Epoch != 0 && p.Epoch != known.Epoch:
		return 0, wire.FieldErrorf(wire.StaleEpoch, "epoch", "node %s has registered again since; use the epoch of its last registration",
			id)
	}
	return known.Epoch, nil
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

// usesNameOfOther reports whether a present node of a fleet has the name and another secret. The store decides that too;
// this is for names that the store has lost.
func usesNameOfOther(f *fleet.Fleet, next *core.Node) bool {
	n := f.Node(next.ID)
	if n == nil {
		return false
	}
	known := n.Declared()
	return known.SecretHash != "" && known.SecretHash != next.SecretHash && known.Health != core.HealthOffline
}
