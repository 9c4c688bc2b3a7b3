package run

// DispatchDeadline names a lock of docs/locks.md.
type DispatchDeadline struct{}

// LockName implements Name.
func (DispatchDeadline) LockName() string { return "dispatch_deadline" }

// DispatchJob names a lock of docs/locks.md.
type DispatchJob struct{}

// LockName implements Name.
func (DispatchJob) LockName() string { return "dispatch_job" }

// DispatchCount names a lock of docs/locks.md.
type DispatchCount struct{}

// LockName implements Name.
func (DispatchCount) LockName() string { return "dispatch_count" }

// DispatchShard names a lock of docs/locks.md.
type DispatchShard struct{}

// LockName implements Name.
func (DispatchShard) LockName() string { return "dispatch_shard" }

// DispatchWaiting names a lock of docs/locks.md.
type DispatchWaiting struct{}

// LockName implements Name.
func (DispatchWaiting) LockName() string { return "dispatch_waiting" }

// DispatchOpen names a lock of docs/locks.md.
type DispatchOpen struct{}

// LockName implements Name.
func (DispatchOpen) LockName() string { return "dispatch_open" }

// DispatchOffers names a lock of docs/locks.md.
type DispatchOffers struct{}

// LockName implements Name.
func (DispatchOffers) LockName() string { return "dispatch_offers" }

// DispatchOutstanding names a lock of docs/locks.md.
type DispatchOutstanding struct{}

// LockName implements Name.
func (DispatchOutstanding) LockName() string { return "dispatch_outstanding" }

// DispatchSends names a lock of docs/locks.md.
type DispatchSends struct{}

// LockName implements Name.
func (DispatchSends) LockName() string { return "dispatch_sends" }

// DispatchTender names a lock of docs/locks.md.
type DispatchTender struct{}

// LockName implements Name.
func (DispatchTender) LockName() string { return "dispatch_tender" }

// DispatchSnapshot names a lock of docs/locks.md.
type DispatchSnapshot struct{}

// LockName implements Name.
func (DispatchSnapshot) LockName() string { return "dispatch_snapshot" }

// DispatchShares names a lock of docs/locks.md.
type DispatchShares struct{}

// LockName implements Name.
func (DispatchShares) LockName() string { return "dispatch_shares" }

// DispatchProber names a lock of docs/locks.md.
type DispatchProber struct{}

// LockName implements Name.
func (DispatchProber) LockName() string { return "dispatch_prober" }

// DispatchBatch names a lock of docs/locks.md.
type DispatchBatch struct{}

// LockName implements Name.
func (DispatchBatch) LockName() string { return "dispatch_batch" }

// DispatchCalls names a lock of docs/locks.md.
type DispatchCalls struct{}

// LockName implements Name.
func (DispatchCalls) LockName() string { return "dispatch_calls" }

// DispatchTasks names a lock of docs/locks.md.
type DispatchTasks struct{}

// LockName implements Name.
func (DispatchTasks) LockName() string { return "dispatch_tasks" }

// DispatchTenants names a lock of docs/locks.md.
type DispatchTenants struct{}

// LockName implements Name.
func (DispatchTenants) LockName() string { return "dispatch_tenants" }

// DispatchHeld names a lock of docs/locks.md.
type DispatchHeld struct{}

// LockName implements Name.
func (DispatchHeld) LockName() string { return "dispatch_held" }
