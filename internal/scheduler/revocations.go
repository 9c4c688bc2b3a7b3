package scheduler

import (
	"context"
	"log/slog"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/revocation"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

// revocations is this instance's copy of the list of revocations.
type revocations struct {
	*revocation.Follower
	keyring func() *auth.Keyring
	nodes   chan struct{} // has an element when nodes may have been revoked
}

// newRevocations makes an empty list that follows a store, and makes the credentials be checked against it.
func newRevocations(c *credentials, st revocation.Store, log *slog.Logger) *revocations {
	r := &revocations{Follower: revocation.NewFollower(st, log), nodes: make(chan struct{}, 1)}
	c.authenticate(r)
	if _, lost := st.(*memstore.Store); lost { // a restart forgets which logins were ended
		c.auth.EndLoginsWithProcess()
	}
	r.keyring = c.auth.Keyring
	return r
}

// NodeRevoked reports whether a node is revoked: its name, or the key or the tenant with which it registered. A key that is revoked is so
// whenever the node registered: an instance that had not read the revocation may have registered it.
func (r *revocations) NodeRevoked(n *core.Node) bool {
	if r.Follower.NodeRevoked(n) {
		return true
	}
	key := r.keyring().Key(n.Key)
	return key != nil && r.Revoked(key)
}

// enforceRevocations ends what is open on this instance and revoked, and has revoked nodes removed. It is called after every change of the
// list of revocations.
func (s *Scheduler) enforceRevocations() {
	s.Server.EnforceRevocations()
	select {
	case s.revocations.nodes <- struct{}{}:
	default: // they are about to be removed
	}
}

// revokedInterval is how often revoked nodes are looked for without a change of the list: the removal of one may have failed, or one may
// have registered through an instance that had not read the list. It is also how often expired keys are looked for.
const revokedInterval = time.Second

// removeRevokedNodes removes revoked nodes, and closes the connections of keys that have expired, until the context ends.
func (s *Scheduler) removeRevokedNodes(ctx context.Context) {
	tick := time.NewTicker(revokedInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.revocations.nodes:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if s.revocations.Any() {
			nodes.RemoveRevoked(ctx, s.Nodes)
		}
		if s.credentials.auth.Keyring().Expires() {
			s.Server.CloseRemovedKeys()
		}
	}
}
