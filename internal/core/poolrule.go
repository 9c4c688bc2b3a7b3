package core

// JobPool is the capability pool of a job. The first placement decides it, and retries keep to it.
type JobPool struct {
	ID PoolID // the pool in which the job is tried first; empty: none
	// Bound means that the job runs on nodes of this pool only, because its tenant is bound to it.
	Bound bool
}

// PoolRule says in which pools one job may run. The zero rule allows every node.
type PoolRule struct {
	Division *Pools // nil, or without pools: the fleet is not divided
	Job      JobPool
	Options  *Options
	// covered has the pools whose services cover those that the job requires; nil: they are compared for each pool.
	covered map[PoolID]bool
}

// NewPoolRule returns the rule of a job. A job that was bound stays bound to its pool, whatever happens to its tenant; another one is bound
// if its tenant is.
func NewPoolRule(division *Pools, s *Spec) PoolRule {
	r := PoolRule{Division: division, Job: s.Pool, Options: &s.Options}
	if !s.Pool.Bound && division.Enabled() {
		if id, bound := division.Overrides[s.Tenant]; bound {
			r.Job = JobPool{ID: id, Bound: true}
		}
	}
	if !r.Job.Bound && !r.AllEligible() {
		r.covered = division.coveredBy(s.Options.RequiredServices)
	}
	return r
}

// Eligible reports whether a pool may get the job before others. Nodes that belong to no pool are pool "".
func (r *PoolRule) Eligible(id PoolID) bool {
	switch {
	case r.Job.Bound:
		return id == r.Job.ID
	case !r.Division.Enabled():
		return true
	case r.covered != nil:
		return r.covered[id]
	}
	return id != "" && r.Division.Eligible(id, r.Options)
}

// Allows reports whether the job may run in a pool at all.
func (r *PoolRule) Allows(id PoolID) bool { return !r.Restricts() || r.Eligible(id) }

// Restricts reports whether there may be nodes on which the job must not run.
func (r *PoolRule) Restricts() bool {
	return r.Job.Bound || r.Division.Enabled() && r.Division.Strict
}

// AllowsNode reports whether the job may run on a node.
func (r *PoolRule) AllowsNode(n *Node) bool {
	if !r.Restricts() {
		return true
	}
	id := PoolID("")
	if r.Division.Enabled() {
		id = r.Division.Assign(n).Pool
	}
	return r.Eligible(id)
}

// AllEligible reports whether every pool is eligible, without checking each of them.
func (r *PoolRule) AllEligible() bool {
	return !r.Job.Bound && (!r.Division.Enabled() || r.Division.Scope != ScopeAll || len(r.Options.RequiredServices) == 0)
}
