package store

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Ledger accounts for slots. No lease is granted on a node while its live leases and foreign work fill it.
type Ledger interface {
	// Reserve takes a slot. Reserving a lease that exists answers OK and takes nothing more.
	Reserve(ctx context.Context, p ReserveParams) (Reservation, error)
	// Commit notes that the node has confirmed the job. It reports false when the lease does not live any more.
	Commit(ctx context.Context, ref core.LeaseRef) (bool, error)
	// Release frees a slot; freeing what is not held does nothing. A store in which that takes time may answer
	// before it is done: nobody waits for a release, and if it is lost the lease lapses.
	Release(ctx context.Context, p ReleaseParams) error
	// Revoke notes that the job ended or moved on while the node may still be busy with it. The slot stays
	// taken until the node stops listing it or the lease expires, and heartbeats tell the node to stop.
	Revoke(ctx context.Context, ref core.LeaseRef) error
}

// Holdings is the read side of the ledger.
type LeaseReader interface {
	// Leases returns leases in the order of their names, whatever their state; an empty one where the node's set
	// does not name it.
	Leases(ctx context.Context, refs ...core.LeaseRef) ([]core.Lease, error)
	// Probe reports how full the nodes are, in their order, without changing anything. An unknown node has
	// no capacity.
	Probe(ctx context.Context, nodes []core.NodeID, into []Occupancy) error
	// Orphans lists every lease of nodes, live or not: the unfinished work of nodes that are gone.
	Orphans(ctx context.Context, nodes ...core.NodeID) ([]core.Lease, error)
}

// ReserveParams describes a reservation.
type ReserveParams struct {
	Lease    core.LeaseRef
	Handle   Handle        // of the node, if known
	Epoch    core.Epoch    // of the node the choice was made on
	Revision core.Revision // of the node the choice was made on
}

// Reservation is the answer to a reservation.
type Reservation struct {
	Verdict Verdict
	Free    int // slots that are certainly left after it
}

// ReleaseParams describes a release.
type ReleaseParams struct {
	Lease  core.LeaseRef
	Handle Handle // of the node, if known
	// Park frees the slot but leaves the name in the node's set, so that a job which is neither finished
	// nor moved on can still be found by whoever takes over.
	Park bool
}
