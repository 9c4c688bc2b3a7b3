package fairqueue

import "fmt"

// The constants of the queue.
const (
	// WeightScale is the weight of a tenant that has none of its own: weights are in hundredths.
	WeightScale = 100
	// MaxWeight is the highest weight of a tenant.
	MaxWeight = 1000 * WeightScale
	// Unit is what a grant costs a tenant of the lowest weight, which is 1.
	Unit = 100 * MaxWeight
	// OfferMS is how long a waiter may take to use an offer.
	OfferMS = 300
	// SilenceMS is how long an instance may be silent before its waiters are removed.
	SilenceMS = 700
	// ForgetMS is for how long the tag of a flow without waiters is kept.
	ForgetMS = 5000
	// MaxOffers is how many offers one call makes.
	MaxOffers = 32
	// MaxCompared limits the comparisons of classes in one call. With many classes a call makes fewer offers, so that it does not delay
	// other commands.
	MaxCompared = 1024
	// MaxAsked is for how many classes one call offers slots. If it were less than MaxClasses, the classes of one call would be a sample,
	// and a tenant that waits in many classes would be in it more often.
	MaxAsked = MaxClasses
	// MaxUrgent is of how many classes an offer compares the deadlines of the tenant whose turn it is.
	MaxUrgent = 32
	// MaxClasses is in how many classes of a pool requests may wait. A tenant that has less than its part of them may exceed it, up to
	// twice as many.
	MaxClasses = 512
	// MinGrants is the number of grants from which on the mean interval is known.
	MinGrants = 8

	// MaxVirtual limits the virtual times: scripts have floating-point numbers, and order tags as texts of 16 digits. A queue in which one
	// of them is higher begins anew: it has lost its waiters, and the instances add them again. Tags are higher than virtual times by what
	// was granted a moment ago.
	MaxVirtual = 1_000_000_000_000_000
	// MaxLag is by how many grants a class may be behind its pool.
	MaxLag = 8
	// MaxDebt is how many grants in other classes may delay a flow that begins. A tenant that was served by other nodes does not lose its
	// turns.
	MaxDebt = 2
	// MaxDropped is how many waiters one call removes because they expired or their instance is dead.
	MaxDropped = 64
	// MaxTimers is how many timers one call handles.
	MaxTimers = 64
	// MaxFlows is how many flows an estimate considers one by one.
	MaxFlows = 24
	// ClassGrants is over how many grants the mean interval of a class is taken.
	ClassGrants = 128
	// FlowGrants is over how many grants that of a flow is taken.
	FlowGrants = 32
	// ForgetClassMS is after what time a class without waiters is forgotten: later than its flows.
	ForgetClassMS = 6000
	// StallMS: if no instance has called for longer, the store is assumed to have stalled. Instances that have waiters call more often.
	StallMS = 350
	// ShareScale is the unit of FlowView.Entitled and FlowView.Accrued.
	ShareScale = 1_000_000_000
)

// Waiter is a request that waits for a slot. None of its texts contains a vertical bar.
type Waiter struct {
	ID       string // unique in the pool
	Class    string // names what the request requires of a node
	Tenant   string
	Instance string // the incarnation of the scheduler instance that has the request
	Since    int64  // when it began to wait
	Deadline int64  // when it gives up
}

// Member returns the text that stands for a waiter in Redis.
func (w *Waiter) Member() string {
	return fmt.Sprintf("%s|%s|%013d|%013d|%s|%s", w.Class, w.Tenant, w.Deadline, w.Since, w.Instance, w.ID)
}

// EnqueueParams adds a waiter.
type EnqueueParams struct {
	Waiter
	Requirements string // describes the class, for instances that do not know it
	Weight       int    // of the tenant; it is limited to 1 to MaxWeight
	MaxWaiting   int    // requests that may wait in the pool; tenants that have less than their part may exceed it
	Repeat       bool   // the waiter was accepted before: no limit applies
}

// Verdict is the answer to Enqueue.
type Verdict uint8

// The verdicts.
const (
	Queued      Verdict = iota + 1
	Expired             // the deadline has passed
	CannotBeMet         // it would get no slot before its deadline
	QueueFull           // too many requests wait, and its tenant has its part of them
)

// EnqueueResult is the answer to Enqueue.
type EnqueueResult struct {
	Verdict Verdict
	// First says that nobody else waits in the class: a slot may have become free before the waiter was there, and nobody was offered it.
	First bool
	// EstimateMS is how long the wait will take; -1: it is not known.
	EstimateMS int64
}

// Offer is a slot offered to a waiter.
type Offer struct {
	Waiter
	ExpiresAt int64
}

// OfferResult is the answer to Offer.
type OfferResult struct {
	Offers []Offer
	// More says that the call did not look at all waiters, because it removed many expired ones, or made fewer offers than it was asked for
	// because there are many classes: call again.
	More bool
}

// Settlement is what becomes of a waiter.
type Settlement uint8

// The settlements.
const (
	Served   Settlement = iota + 1 // it got a slot, and leaves
	Left                           // it does not wait any more
	Returned                       // no slot was free for its offer: it gets its place again, unless it has expired
)

// BeatResult is the answer to Beat.
type BeatResult struct {
	Waiters int // of the instance, with those that have an offer
	// Freed says that offers were taken back since the last beat of any instance: slots may be free for others.
	Freed bool
}

// ViewParams asks for a page of what the queue holds.
type ViewParams struct {
	After   string // FlowView.Cursor of the last flow of the page before; empty: the first page
	Flows   int    // of the page
	Waiters int    // of each flow that are listed
}

// View is a page of what the queue holds: flows, by class and tag, and their classes.
type View struct {
	Now     int64 // the time of the store
	Classes []ClassView
	Flows   []FlowView
	More    bool // there is another page
}

// ClassView is a class in which requests wait.
type ClassView struct {
	ID, Requirements string
	Waiting          int
	Interval         Interval // between two grants
}

// FlowView is the waiters of a tenant in a class.
type FlowView struct {
	Class, Tenant string
	Cursor        string
	Waiting       int
	Interval      Interval // between two grants of the flow
	Weight        int      // of the tenant
	TenantWaiting int      // of the tenant, in all classes
	// Granted counts the slots that the tenant got, in all classes, while another tenant waited in the same class. Entitled is, in
	// billionths, how many of the slots that were granted so were its part, without Accrued, which is the same of this class since Entitled
	// was last raised. All begin again when the tenant has not waited for ForgetMS.
	Granted, Entitled, Accrued int64
	Waiters                    []Waiter // the first ones
}

// Interval is the mean time between two grants.
type Interval struct {
	US     int64 // microseconds
	Grants int   // the number of grants in the mean
}

// Known reports whether there were enough grants.
func (i Interval) Known() bool { return i.Grants >= MinGrants }
