package core

// Candidate is a node that was considered for a job. Its reason says why it did not get it; ReasonNone: it was chosen, or was not needed.
type Candidate struct {
	Node   NodeID
	Reason Reason
}
