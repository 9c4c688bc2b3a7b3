package store

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Ledger accounts for slots. A node's lease set holds a lease for every slot that is taken, and no lease is granted while the live
// leases and the foreign work fill the node. A lease expires one Timing.Presence after it was last written; heartbeats renew it.
//
// The lease set is also the index of unfinished work: an expired lease takes no slot, and stays in the set until it is released.
type Ledger interface {
	// Reserve takes a slot for a lease, if the node is certainly ready and has a free one, and removes nothing from the set. It is
	// refused when the node is not in the epoch or the revision on which the choice was made. Reserving a lease that is live answers
	// OK and takes no second slot. A call that arrives after the deadline of its context answers TooLate.
	Reserve(ctx context.Context, p ReserveParams) (Reservation, error)
	// Commit marks a lease as running, because the node has acknowledged its job, and renews it. It reports false for a lease that
	// is not live: released, revoked, parked, expired, or reserved with another token.
	Commit(ctx context.Context, ref core.LeaseRef) (bool, error)
	// Release removes a lease, or parks it; a lease that does not exist is no error. A store may answer before a removal is done, as
	// long as it is done soon: no caller depends on it, and if it is lost, the lease expires. A parked lease is parked when Release
	// returns.
	Release(ctx context.Context, p ReleaseParams) error
	// Revoke ends the right to a lease whose job has ended or moved on while the node may still be working on it. The slot stays
	// taken until the node's list omits the job twice (once, if it was on a list) or the lease expires, and heartbeats ask the node
	// to cancel the job. A parked lease takes no slot and is removed at once.
	Revoke(ctx context.Context, ref core.LeaseRef) error
}

// LeaseReader is the read side of the ledger. Its methods change nothing.
type LeaseReader interface {
	// Leases returns leases in the order of refs, whatever their state, and a zero Lease where the set does not contain it.
	Leases(ctx context.Context, refs ...core.LeaseRef) ([]core.Lease, error)
	// Probe writes the occupancy of nodes into the elements of into, in their order. A node that is not registered has the zero
	// Occupancy.
	Probe(ctx context.Context, nodes []core.NodeID, into []Occupancy) error
	// Orphans lists every lease of nodes, live, expired or parked: the unfinished work of nodes that are absent.
	Orphans(ctx context.Context, nodes ...core.NodeID) ([]core.Lease, error)
}

// ReserveParams describes a reservation.
type ReserveParams struct {
	Lease    core.LeaseRef
	Handle   Handle        // of the node, if known
	Epoch    core.Epoch    // of the node on which the choice was made
	Revision core.Revision // of the node on which the choice was made
	// Probe says that the lease is for a probe of the node. What the scheduler has decided about the node does not matter for it: that an
	// operator has drained it, and that its admission grants fewer slots than it declares. What the node says about itself does.
	Probe bool
}

// Reservation is the answer to a reservation.
type Reservation struct {
	Verdict Verdict
	Free    int // slots that are certainly free after it
}

// ReleaseParams describes a release.
type ReleaseParams struct {
	Lease  core.LeaseRef
	Handle Handle // of the node, if known
	// Park frees the slot but keeps the lease in the set, so that an instance that takes the job over finds it. The job is neither
	// finished nor moved.
	Park bool
	// Done is called when the slot is free, unless the release is lost. It must not block; nil: it is not called.
	Done func()
}

// Finish says that the slot is free.
func (p *ReleaseParams) Finish() {
	if p.Done != nil {
		p.Done()
	}
}
