package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Jobs holds the records that decide outcomes. A record that was handed out is never changed, and must not
// be changed by whoever has it.
type Jobs interface {
	// Create writes the record unless there is one, and returns the record that stands. Created is true when
	// it is the caller's own, also when the caller repeats a write whose reply was lost. The record of a job
	// that was refused after all is as good as none.
	Create(ctx context.Context, p CreateParams) (job *core.Job, created bool, err error)
	// Apply makes one step of the state machine, if the record is held by whom the caller thinks.
	Apply(ctx context.Context, p ApplyParams) (Applied, error)
	// Get returns a record, ErrNoJob if there is none.
	Get(ctx context.Context, id core.JobID) (*core.Job, error)
	// Clock is what time it is, about, on the clock that the record's times were taken from. It asks nobody.
	Clock(id core.JobID) time.Time
	// List returns records, the newest first: unfinished ones that some node's lease set names, and of the ended
	// ones at least those that ended through this store.
	List(ctx context.Context, p ListParams) ([]*core.Job, error)
}

// CreateParams describes a new record: DISPATCHED, first attempt, naming node, epoch and token.
type CreateParams struct {
	ID          core.JobID
	Spec        core.Spec
	Fingerprint string // the content's fingerprint
	Holder      core.Holder
	Token       core.Token
	Timeout     time.Duration // of the whole job
}

// ApplyParams describes one step.
type ApplyParams struct {
	Job   core.JobID
	Event core.Event
	// Holder is whom the caller believes to hold the job; the step is refused if it is somebody else.
	// Epoch 0 leaves the epoch open, AnyHolder the whole.
	Holder    core.Holder
	AnyHolder bool
	HeldToken core.Token // if given: the record's lease must be this one
	// Seen is the record as the caller last saw it, if it did. It saves a read; an old one does no harm.
	Seen *core.Job

	To       core.Holder   // move, rebind: the new holder
	Token    core.Token    // move: the new holder's lease
	Owner    core.Token    // retry, takeover: who looks for another node; move: who found it, if RETRYING
	RetryFor time.Duration // retry, takeover: how long nobody else may
	// Suspends says that a retry or a takeover waits for the job's audio: its deadline moves by RetryFor, once.
	Suspends bool
	Reason   core.Reason // retry, fail, cancel
	Cause    core.Reason // why the attempt ended, if that is another thing than why the job did
	Detail   string
	Result   []byte // done
}

// Outcome says what became of a step.
type Outcome uint8

// The outcomes of a step.
const (
	Decided          Outcome = iota + 1 // the step was made
	Repeated                            // the very same step had been made before
	NoJob                               // there is no record
	StaleAttempt                        // the job is in another attempt
	NotHolder                           // another node has the job
	HolderStaleEpoch                    // the node has registered again since
	Ended                               // the job had ended otherwise
	Illegal                             // the state machine has no such step
	Owned                               // the retry belongs to somebody whose time is not over
)

var outcomeNames = [...]string{
	Decided: "decided", Repeated: "repeated", NoJob: "no_job", StaleAttempt: "stale_attempt", NotHolder: "not_holder",
	HolderStaleEpoch: "stale_epoch", Ended: "ended", Illegal: "illegal", Owned: "owned",
}

func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return ""
}

// Stands reports whether the record now says what the caller wanted.
func (o Outcome) Stands() bool { return o == Decided || o == Repeated }

// Applied is the record after a step, made or not.
type Applied struct {
	Outcome Outcome
	Job     *core.Job // nil when there is none
}

// ListParams selects records. Zero fields select all.
type ListParams struct {
	State   core.State
	Node    core.NodeID
	Session core.SessionID
	Lang    core.Lang // spoken or wanted
	Region  string    // asked for
	Limit   int
	After   JobPosition // only what comes after this in the list
}

// Place is where a job stands in a list: it does not change, whatever else comes and goes.
type JobPosition struct {
	Created int64 // Unix milliseconds, which is what every instance knows of every job
	Job     core.JobID
}

// PlaceOf is where a job stands.
func PositionOf(job *core.Job) JobPosition {
	return JobPosition{Created: job.Created.UnixMilli(), Job: job.ID}
}

// Compare orders places: the newest first, those of one moment by their names.
func (p JobPosition) Compare(other JobPosition) int {
	return cmp.Or(cmp.Compare(other.Created, p.Created), cmp.Compare(p.Job, other.Job))
}

// Page sorts the records that were found and cuts the list.
func (p *ListParams) Page(jobs []*core.Job) []*core.Job {
	slices.SortFunc(jobs, func(a, b *core.Job) int { return PositionOf(a).Compare(PositionOf(b)) })
	if p.Limit > 0 && len(jobs) > p.Limit {
		jobs = jobs[:p.Limit]
	}
	return jobs
}

// Selects reports whether a record is asked for.
func (p *ListParams) Selects(job *core.Job) bool {
	return (p.State == 0 || p.State == job.State) &&
		(p.Node == "" || p.Node == job.Node) &&
		(p.Session == "" || p.Session == job.Session) &&
		(p.Lang == "" || p.Lang == job.Direction.Src || p.Lang == job.Direction.Tgt) &&
		(p.Region == "" || p.Region == job.Options.Region) &&
		(p.After == JobPosition{} || PositionOf(job).Compare(p.After) > 0)
}
