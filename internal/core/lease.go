package core

// LeaseRef identifies a lease. The token is part of it: two dispatchers that reserve for the same job on the same node
// hold two leases.
type LeaseRef struct {
	Node    NodeID
	Job     JobID
	Attempt int
	Token   Token
}

// LeaseState is the state of a lease.
type LeaseState uint8

// The states of a lease.
const (
	LeaseReserved LeaseState = iota + 1 // the node has not acknowledged the job yet
	LeaseRunning                        // the node acknowledged the job
	LeaseParked                         // holds no slot any more, but still names a job that has not ended
	LeaseRevoked                        // the job ended or moved: the slot stays taken until the node stops the job
)

var leaseStateNames = [...]string{LeaseReserved: "reserved", LeaseRunning: "running", LeaseParked: "parked", LeaseRevoked: "revoked"}

func (s LeaseState) String() string {
	if int(s) < len(leaseStateNames) {
		return leaseStateNames[s]
	}
	return ""
}

// Lease is a slot of a node that is taken by one attempt. Leases account for slots only; the holder and the outcome of a
// job are decided by its record alone.
type Lease struct {
	LeaseRef
	State LeaseState
	// Young is true while the lease is so recent that the job may not have reached the node: the absence of the job in a
	// heartbeat means nothing yet.
	Young bool
}
