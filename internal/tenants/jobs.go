package tenants

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// Jobs counts the jobs of tenants that have limits. A request is counted before a node is selected for it or it waits for a slot, so that a
// tenant at its limit takes neither a slot nor a turn from others. It is counted until its job has ended, whichever instance ends it, or
// until it is refused. A tenant without a limit costs nothing.
type Jobs struct {
	options JobsOptions
	waiting *limitQueues

	mu   run.Mutex
	held map[*counted]struct{} // counts of requests that wait for a slot
}

// JobsOptions are what Jobs is made of.
type JobsOptions struct {
	Gate     *Gate // nil: no tenant has limits
	Records  JobRecords
	Tasks    *run.Group // for what nobody waits for
	Errors   *telemetry.StoreErrors
	NextName func() core.Token // makes the name of a count
	// MaxWaiting is how many requests of this instance may wait for limits.
	MaxWaiting int
}

// JobRecords reads the records of jobs.
type JobRecords interface {
	Get(ctx context.Context, id core.JobID) (*core.Job, error)
}

// heldFor is for how long the count of a waiting request is valid. It is renewed: the count of an instance that dies should not last
// longer.
const heldFor = 15 * RenewJobsInterval

// NewJobs makes Jobs.
func NewJobs(o JobsOptions) *Jobs {
	return &Jobs{options: o, waiting: newLimitQueues(o.MaxWaiting), mu: run.NewMutex("dispatch_held"), held: make(map[*counted]struct{})}
}

// Count returns the count of a request, which may wait until a time if a limit refuses it; nil: its tenant has no limit of jobs.
func (j *Jobs) Count(spec *core.Spec, until time.Time) *Count {
	if j.options.Gate == nil || !j.options.Gate.LimitsJobs(spec.Tenant) {
		return nil
	}
	return &Count{jobs: j, spec: *spec, until: until}
}

// CountRefusal counts a request that was refused because of a limit.
func (j *Jobs) CountRefusal(tenant core.TenantID, limit store.TenantLimit) {
	if limit != store.NoLimit {
		j.options.Gate.CountRefusal(tenant, limit)
	}
}

// JobEnded ends the count of a job. A job that was refused gives its tokens back: its caller got an error.
func (j *Jobs) JobEnded(job *core.Job) {
	if j.options.Gate != nil && job.Admission != "" {
		j.remove(&job.Spec, job.Admission, job.Refused())
	}
}

// forget stops renewing a count.
func (j *Jobs) forget(c *counted) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.held, c)
}

// release ends a count and gives its tokens back.
func (j *Jobs) release(c *counted) {
	j.mu.Lock()
	delete(j.held, c)
	c.released = true
	j.mu.Unlock()
	j.remove(&c.spec, c.name, true)
}

// remove ends a count in the background: nobody waits for it, and it is retried until the store answers.
func (j *Jobs) remove(spec *core.Spec, name core.Token, undo bool) {
	j.options.Tasks.Go(func(ctx context.Context) {
		if j.options.Errors.Retry(ctx, func() error { return j.options.Gate.EndJob(ctx, spec, name, undo) }) {
			j.waiting.wake(spec.Tenant)
		}
	})
}

// InFlightJob is a job that an instance runs.
type InFlightJob struct {
	*core.Job
	Deadline time.Time // by the clock of this process
}

// Keep restores the counts of in-flight jobs and of waiting requests that the store has lost, from time to time, until the context ends.
func (j *Jobs) Keep(ctx context.Context, inFlight iter.Seq[InFlightJob]) {
	for j.options.Gate != nil && run.Sleep(ctx, run.Jitter(RenewJobsInterval, 0.1)) {
		j.renewJobs(ctx, inFlight)
		j.renewHeld(ctx)
	}
}

// renewJobs restores the counts of in-flight jobs that the store has lost.
func (j *Jobs) renewJobs(ctx context.Context, inFlight iter.Seq[InFlightJob]) {
	byTenant := make(map[core.TenantID]map[string]InFlightJob)
	for job := range inFlight {
		if job.Admission != "" {
			addTo(byTenant, job.Tenant, string(job.Admission), job)
		}
	}
	for tenant, jobs := range byTenant {
		for _, name := range j.missing(ctx, tenant, namesOf(jobs), 0) {
			j.restoreJob(ctx, jobs[name])
		}
	}
}

// restoreJob counts a job that is not counted. Another instance may end the job, and remove its count, at the same time: the record is read
// after the count was added, so that one of the two removes it.
func (j *Jobs) restoreJob(ctx context.Context, job InFlightJob) {
	if err := j.options.Gate.RestoreJob(ctx, &job.Spec, job.Admission, keepJob(max(time.Until(job.Deadline), 0))); err != nil {
		j.options.Errors.RecordError("renew", err)
		return
	}
	if current, err := j.options.Records.Get(ctx, job.ID); errors.Is(err, store.ErrNoJob) || err == nil &&
		(current.State.Terminal() || current.Admission != job.Admission) {
		j.remove(&job.Spec, job.Admission, false)
	}
}

// renewHeld renews the counts of requests that wait, and restores those that the store has lost.
func (j *Jobs) renewHeld(ctx context.Context) {
	for tenant, held := range j.heldByTenant() {
		for _, name := range j.missing(ctx, tenant, namesOf(held), heldFor) {
			j.restoreHeld(ctx, held[name])
		}
	}
}

// restoreHeld counts a waiting request that is not counted. If it is released at the same time, its count may be removed before it is added
// here: it is removed again.
func (j *Jobs) restoreHeld(ctx context.Context, c *counted) {
	if held, _ := j.state(c); !held {
		return
	}
	if err := j.options.Gate.RestoreJob(ctx, &c.spec, c.name, heldFor); err != nil {
		j.options.Errors.RecordError("renew", err)
	}
	if _, released := j.state(c); released {
		j.remove(&c.spec, c.name, false)
	}
}

// missing renews counts and returns those that the store has lost; none after an error: the next time will do.
func (j *Jobs) missing(ctx context.Context, tenant core.TenantID, names []string, keep time.Duration) []string {
	missing, err := j.options.Gate.RenewJobs(ctx, tenant, names, keep)
	if err != nil {
		j.options.Errors.RecordError("renew", err)
		return nil
	}
	return missing
}

// state reports whether a count is that of a request that waits, and whether it was ended.
func (j *Jobs) state(c *counted) (held, released bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, held = j.held[c]
	return held, c.released
}

// heldByTenant returns the counts of waiting requests, by tenant and name.
func (j *Jobs) heldByTenant() map[core.TenantID]map[string]*counted {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make(map[core.TenantID]map[string]*counted)
	for c := range j.held {
		addTo(all, c.spec.Tenant, string(c.name), c)
	}
	return all
}

func addTo[T any](all map[core.TenantID]map[string]T, tenant core.TenantID, name string, element T) {
	if all[tenant] == nil {
		all[tenant] = make(map[string]T)
	}
	all[tenant][name] = element
}

func namesOf[T any](counts map[string]T) []string {
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	return names
}
