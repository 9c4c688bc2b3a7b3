package core

// LeaseRef names a lease. The token is part of the name: two dispatchers that reserve for the same job on
// the same node hold two leases.
type LeaseRef struct {
	Node    NodeID
	Job     JobID
	Attempt int
	Token   Token
}

// LeaseState says how sure it is that the node has the job.
type LeaseState uint8

// The states of a lease.
const (
	LeaseReserved LeaseState = iota + 1 // promised, not yet confirmed by the node
	LeaseRunning                        // confirmed
	LeaseParked                         // holds no slot any more, but still names an unfinished job
	LeaseRevoked                        // the job ended or moved on: held only until the node lets go of it
)

var leaseStateNames = [...]string{LeaseReserved: "reserved", LeaseRunning: "running", LeaseParked: "parked", LeaseRevoked: "revoked"}

func (s LeaseState) String() string {
	if int(s) < len(leaseStateNames) {
		return leaseStateNames[s]
	}
	return ""
}

// Lease is one slot of one node, taken for one attempt of one job. Leases account for slots only; who has
// the job and how it ends is decided by the job's record alone.
type Lease struct {
	LeaseRef
	State LeaseState
	// Young says that it was reserved so lately that the job may still be on its way to the node: whatever
	// the node says, it says nothing about this job.
	Young bool
}
