package telemetry

// Values of labels that other packages count. They are named here, below all of them, so that the series that start at zero are those that
// are counted. TestLabelValuesStartAtZero checks that each has a series from the start; TestLabelValuesAreNamed, in the root, that no
// package writes a value of its own.

// Results of registrations, of node_registration_total.
const (
	RegistrationNew     = "new"
	RegistrationAgain   = "again"
	RegistrationRefused = "refused" // the name is another node's
	RegistrationRevoked = "revoked"
	RegistrationError   = "error"   // of the store
	RegistrationInvalid = "invalid" // what the node sent cannot be read, or lacks something
	RegistrationDenied  = "denied"  // its credential does not allow it
	RegistrationLimited = "limited" // there are too many
)

// Results of deliveries that failed, of lingua_deliveries_total.
const (
	DeliveryBusy    = "busy"
	DeliveryRefused = "refused" // nothing was sent
	DeliveryUnknown = "unknown" // it may have arrived
)

// Kinds of leases that did not match the jobs of their node, of lingua_reconciled_leases_total.
const (
	LeaseOrphan   = "orphan"   // the node does not have the job
	LeaseOverdue  = "overdue"  // the attempt is past its deadline
	LeaseStray    = "stray"    // the node lists a job for which there is no lease
	LeaseRebound  = "rebound"  // the node registered again and still has the job
	LeaseTakeover = "takeover" // the instance that dispatched the job is gone
)

// Decisions about outliers, of lingua_node_admissions_total.
const (
	AdmissionEjected    = "ejected"
	AdmissionReadmitted = "readmitted"
	AdmissionWithheld   = "withheld" // a direction needs the node

	WithheldLast = "last_node"   // a direction would have no node
	WithheldHalf = "half_of_all" // a direction would lack more than half of its slots
)

// Events of sessions, of lingua_session_events_total.
const (
	SessionStarted    = "started"
	SessionResumed    = "resumed"
	SessionRevived    = "revived"    // on another instance
	SessionSuperseded = "superseded" // by the one on another instance
	SessionEnded      = "ended"
	SessionAbandoned  = "abandoned"
	SessionTerminated = "terminated" // by an operator
)

// Kinds of messages to sessions, of lingua_session_messages_total, beside the terminal ones.
const (
	MessagePartial = "partial"
	MessageWaiting = "waiting"
	MessageSpeech  = "speech"
)

// What was taken over, of lingua_takeovers_total.
const (
	TakeoverInstance = "instance"
	TakeoverNode     = "node"
	TakeoverJob      = "job"
)

// What the store can lose, of lingua_store_lost_total.
const (
	LostRecord = "record"
	LostLease  = "lease"
)
