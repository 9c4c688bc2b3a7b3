package core

// Candidate is a node that was considered for a job. Its reason says why it did not get it; ReasonNone: it was chosen, or was not needed.
type Candidate struct {
	Node   NodeID
	Reason Reason
}

// MaxCandidates is how many candidates of a decision are remembered one by one; of the others it is counted how many had each reason.
const MaxCandidates = 8

// Decision is how a node was chosen for an attempt of a job.
type Decision struct {
	Job     JobID
	Tenant  TenantID
	Attempt int
	AtMS    int64 // Unix milliseconds, on the clock of this instance
	Node    NodeID
	Pool    PoolID // the capability pool of the node; empty: none
	// Candidates are the nodes that were drawn, the chosen one included, in the order in which they were: the first MaxCandidates of them.
	// Others counts the rest by reason, without those that were not needed.
	Candidates []Candidate
	Others     map[Reason]int
}
