package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Jobs holds the records that decide the outcomes of jobs. A record that a method returned is immutable: the store never changes
// it, and the caller must not.
type Jobs interface {
	// Create writes a record unless there is one, and returns the one that is stored. Created is true when that is the caller's own,
	// also for a repeated call. A record of a job that was refused (core.Job.Refused) counts as none and is replaced.
	Create(ctx context.Context, p CreateParams) (job *core.Job, created bool, err error)
	// Apply applies one event of the state machine, atomically, if the record is held by the caller's holder. The result is that of
	// Transition on the stored record. A repeated call answers Repeated, except that a repeated takeover renews the retry again.
	Apply(ctx context.Context, p ApplyParams) (Applied, error)
	// Get returns a record, ErrNoJob if there is none.
	Get(ctx context.Context, id core.JobID) (*core.Job, error)
	// List returns records, the newest first: unfinished ones that a node's lease set contains, and of the ended ones at least those
	// that ended through this instance.
	List(ctx context.Context, p ListParams) ([]*core.Job, error)
}

// CreateParams describes a new record: DISPATCHED, first attempt, with node, epoch and token.
type CreateParams struct {
	ID          core.JobID
	Spec        core.Spec
	Fingerprint string // of the content
	Holder      core.Holder
	Token       core.Token
	Timeout     time.Duration // of the whole job
}

// ApplyParams describes the application of one event.
type ApplyParams struct {
	Job   core.JobID
	Event core.Event
	// Holder is the holder that the caller believes the job to have; the event is refused if it has another. Epoch 0 matches every
	// epoch, AnyHolder every holder.
	Holder    core.Holder
	AnyHolder bool
	HeldToken core.Token // if set, the token of the record's lease must be this one
	// Seen is the record as the caller last saw it, if it did. It saves a read; an outdated one is harmless.
	Seen *core.Job

	To       core.Holder   // move, rebind: the new holder
	Token    core.Token    // move: the token of the new holder's lease
	Owner    core.Token    // retry, takeover: the token of the one that looks for another node; move from RETRYING: the same token
	RetryFor time.Duration // retry, takeover: how long no other may take the retry over
	// Suspends says that a retry or a takeover waits for the job's audio: its deadline moves by RetryFor, once.
	Suspends bool
	Reason   core.Reason // retry, fail, cancel
	Cause    core.Reason // why the attempt ended, if it differs from why the job did
	Detail   string
	Result   []byte // done
}

// Outcome is the result of applying an event.
type Outcome uint8

// The outcomes.
const (
	Decided          Outcome = iota + 1 // the event was applied
	Repeated                            // the same event was applied before
	NoJob                               // there is no record
	StaleAttempt                        // the job is in another attempt
	NotHolder                           // another node holds the job
	HolderStaleEpoch                    // the node has registered again since
	Ended                               // the job had ended differently
	Illegal                             // the state machine has no such transition
	Owned                               // another token owns the retry, and its time is not over
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

// Stands reports whether the record is now as the caller wanted it.
func (o Outcome) Stands() bool { return o == Decided || o == Repeated }

// Applied is the record after an event, applied or not.
type Applied struct {
	Outcome Outcome
	Job     *core.Job // nil when there is none
}

// ListParams selects records. Zero fields select all.
type ListParams struct {
	State   core.State
	Phase   Phase
	Node    core.NodeID // has the job, or had it
	Session core.SessionID
	Lang    core.Lang      // source or target
	Src     core.Lang      // source
	Tgt     core.Lang      // target
	Region  string         // as requested
	Reason  core.Reason    // for which the job, or one of its attempts, ended
	EndedBy core.Reason    // for which the job itself ended
	Search  string         // a part of the id
	Since   time.Time      // created then or later
	Until   time.Time      // created before
	Tenant  *core.TenantID // nil: of all tenants
	Limit   int
	After   JobPosition // only records after this position
}

// Phase is whether jobs have ended.
type Phase uint8

// The phases; the zero value selects both.
const (
	PhaseOpen  Phase = iota + 1 // not ended: DISPATCHED, ACKED, RETRYING
	PhaseEnded                  // DONE, FAILED, CANCELLED
)

// OnlyEnded reports whether only jobs that have ended are selected.
func (p *ListParams) OnlyEnded() bool {
	return p.Phase == PhaseEnded || p.State != 0 && p.State.Terminal()
}

// JobPosition is the position of a job in a list. It does not change when other jobs come and go.
type JobPosition struct {
	Created int64 // Unix milliseconds: the precision of every store
	Job     core.JobID
}

// PositionOf returns the position of a job.
func PositionOf(job *core.Job) JobPosition {
	return JobPosition{Created: job.Created.UnixMilli(), Job: job.ID}
}

// Compare orders positions: the newest first, those of the same time by id.
func (p JobPosition) Compare(other JobPosition) int {
	return cmp.Or(cmp.Compare(other.Created, p.Created), cmp.Compare(p.Job, other.Job))
}

// Page sorts the selected records and cuts the list at the limit.
func (p *ListParams) Page(jobs []*core.Job) []*core.Job {
	slices.SortFunc(jobs, func(a, b *core.Job) int { return PositionOf(a).Compare(PositionOf(b)) })
	if p.Limit > 0 && len(jobs) > p.Limit {
		jobs = jobs[:p.Limit]
	}
	return jobs
}

// selectsEnd reports whether a job ended for the reason that is asked for.
func (p *ListParams) selectsEnd(job *core.Job) bool {
	return p.EndedBy == "" || job.State.Terminal() && p.EndedBy == job.Reason
}

// Selects reports whether a record matches.
func (p *ListParams) Selects(job *core.Job) bool {
	return (p.State == 0 || p.State == job.State) && (p.Phase == 0 || job.State.Terminal() == (p.Phase == PhaseEnded)) &&
		(p.Node == "" || p.Node == job.Node || job.Had(p.Node)) &&
		(p.Session == "" || p.Session == job.Session) &&
		(p.Lang == "" || p.Lang == job.Direction.Src || p.Lang == job.Direction.Tgt) &&
		(p.Src == "" || p.Src == job.Direction.Src) && (p.Tgt == "" || p.Tgt == job.Direction.Tgt) &&
		(p.Reason == "" || job.EndedFor(p.Reason)) && p.selectsEnd(job) && strings.Contains(string(job.ID), p.Search) &&
		!job.Created.Before(p.Since) && (p.Until.IsZero() || job.Created.Before(p.Until)) &&
		(p.Region == "" || p.Region == job.Options.Region) && (p.Tenant == nil || *p.Tenant == job.Tenant) &&
		(p.After == JobPosition{} || PositionOf(job).Compare(p.After) > 0)
}
