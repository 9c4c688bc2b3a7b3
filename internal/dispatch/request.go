package dispatch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/tracing"
	"github.com/lingua-scheduler/lingua/wire"
)

// Placement says which node has a job.
type Placement struct {
	Job     core.JobID
	Node    core.NodeID
	Attempt int
	Waited  time.Duration // how long the request waited for a free slot
	Pool    core.PoolID   // the capability pool in which the next job of the session should be tried first; empty: none
}

// Request asks for a job.
type Request struct {
	core.Spec
	// Unique means that the request id was made for this call, so no other call can be for the same job.
	Unique bool
	// UntilPlaced means that Dispatch returns when a node has the job or the job has ended: once a slot was reserved, the
	// caller is not refused because nodes are busy.
	UntilPlaced bool
	// Previous is the job of the same session before this one, if the caller knows it.
	Previous PreviousJob
	// Traceparent is the W3C trace context of the caller, to which the trace of the job links; empty or invalid: it has none.
	Traceparent string
	// Steps has the steps of the trace before the dispatch; nil: there are none.
	Steps *tracing.Steps

	trace  *tracing.Trace // of the job; nil: tracing is off
	since  time.Time      // when the request began to wait for a free slot; zero: it does not wait
	until  time.Time      // until which it may wait; zero: it does not wait
	slotBy time.Time      // after which it gets no slot any more, because it has waited; zero: it has not

	offered  core.NodeID // of which it was offered a slot; empty: any node may be selected
	reserved func()      // called when a slot was reserved; nil: nobody is interested
	admitted func()      // called when the limits of its tenant have admitted it; nil: nobody is interested

	timeout time.Duration // of the job; 0: as configured
	watch   *probeWatch   // of a probe; nil: it is none

	refused *refusedSelection // the last selection for the request, if it found no slot

	counted *admission        // of its tenant; nil: it is not counted, or its job is
	limit   store.TenantLimit // of its tenant, which has refused it last
}

// Dispatch gives a job to a node and returns when it was delivered. The same request gives the same job, however often it is
// sent. The error, if any, is a *wire.Error.
func (d *Dispatcher) Dispatch(ctx context.Context, r Request) (Placement, error) {
	began := time.Now()
	d.beginTrace(&r)
	p, err := d.dispatch(ctx, &r, d.placeNow)
	d.metrics.ObserveDispatch(time.Since(began), err != nil, r.exemplar(err != nil))
	if err != nil {
		d.countRefusal(&r, err, 0)
		return Placement{}, err
	}
	return p, nil
}

// countRefusal counts a request that was refused after it had waited.
func (d *Dispatcher) countRefusal(r *Request, e *wire.Error, waited time.Duration) {
	d.metrics.Refusals.WithLabelValues(string(e.Code)).Inc()
	d.selector.countRefusal(e, r.refused)
	if e.Code == wire.RateLimited && r.limit != store.NoLimit {
		d.cfg.Tenants.CountRefusal(r.Tenant, r.limit)
	}
	d.cfg.Observer.RequestRefused(r.Direction, e.Code, waited)
}

// isLeaving reports whether this instance takes no job of a request any more, because it is shutting down.
func (d *Dispatcher) isLeaving(r *Request) bool {
	return d.runner.draining.Load() || d.leaving.Load() && r.Utterance.Turn == 0
}

// placeNow places the job of a request that does not wait.
func (d *Dispatcher) placeNow(id core.JobID, fingerprint string, r *Request) (Placement, *wire.Error) {
	defer r.uncount()
	return d.place(id, fingerprint, r)
}

// place reserves a slot, creates the job's record and delivers the job, unless the job exists. A request that was refused may still be
// counted for its tenant: the caller ends that.
func (d *Dispatcher) place(id core.JobID, fingerprint string, r *Request) (_ Placement, refusal *wire.Error) {
	step := r.Steps.Begin(tracing.SpanDispatch)
	step.Link(r.Traceparent)
	defer func() { step.End(codeOf(refusal)) }()
	if f := d.inFlight.get(id); f != nil {
		return placementOf(f.record(), fingerprint)
	}
	if _, uncertain := d.uncertain.Load(id); uncertain {
		return Placement{}, store.Unavailable() // its record may exist and is about to be failed: it is no answer
	}
	d.inFlight.increment() // before draining is read: either Drain waits for this request, or the request sees that it drains
	defer d.inFlight.decrement()
	if d.isLeaving(r) {
		e := wire.Errorf(wire.AllCandidatesFullOrFailed,
			"this scheduler is shutting down and takes no new jobs: try again, or try another instance")
		return d.refuse(d.decide.Context(), id, fingerprint, e.RetryIn(time.Second))
	}
	decide := d.decide.Context()
	if refusal := d.limits.admit(decide, r); refusal != nil {
		return d.refuse(decide, id, fingerprint, refusal)
	}
	if r.admitted != nil {
		r.admitted()
	}
	previous := d.spread.prepare(decide, r)
	slot := slotRequest{job: id, spec: &r.Spec, attempt: 1, token: d.tokens.next(), firstPool: d.affinePool(&r.Previous),
		offered: r.offered, steps: r.Steps}
	reserved, refusal := d.selector.selectNode(decide, &slot)
	r.refused = slot.refused
	if refusal != nil {
		if r.offered != "" {
			return Placement{}, refusal // it was looked for when the request began to wait
		}
		return d.refuse(decide, id, fingerprint, refusal)
	}
	now := time.Now()
	if !r.slotBy.IsZero() && now.After(r.slotBy) {
		d.slots.giveUp(&reserved)
		return Placement{}, errFull()
	}
	if r.reserved != nil {
		r.reserved()
	}
	if !r.since.IsZero() {
		r.Utterance.WaitMS = max(0, now.Sub(r.since).Milliseconds())
	}
	job, created, refusal := d.create(decide, fingerprint, r, reserved)
	switch {
	case refusal != nil:
		return Placement{}, refusal
	case !created:
		d.slots.giveUp(&reserved)
		return placementOf(job, fingerprint)
	}
	r.created()
	step.End("")
	r.Steps.ExportWait(now, job.Created)
	c := callerRefusable
	switch {
	case r.Probe:
		c = callerNone // the record says why it was not delivered
	case r.UntilPlaced:
		c = callerUntilPlaced
	}
	run := d.runner.start(job, &reserved, c, r.trace)
	run.entry.watchBy(r.watch)
	placed, refusal := run.run(d.tasks.Context()) // the caller may leave; the job continues
	r.refused = run.refusedSelection
	if r.watch != nil && run.job.State == core.StateDispatched {
		r.watch.delivered = time.Now()
	}
	if division := d.fleet.Division(); division != nil && division.AffinitySeconds > 0 {
		placed.Pool = reserved.pool.ID
	}
	if refusal == nil && previous != "" {
		d.metrics.CountSuccession(placed.Node == previous)
	}
	return placed, refusal
}

// create writes the record of a job that has a slot, unless there is one. An error means that it may have been written.
func (d *Dispatcher) create(ctx context.Context, fingerprint string, r *Request, reserved reservation) (job *core.Job, created bool,
	_ *wire.Error) {
	spec := r.Spec
	spec.Pool, spec.Admission = reserved.pool, r.counted.name()
	holder := core.Holder{Attempt: 1, Node: reserved.lease.Node, Epoch: reserved.epoch}
	step := r.Steps.Begin(tracing.SpanCreate)
	job, created, err := d.store.Create(ctx, store.CreateParams{
		ID: reserved.lease.Job, Spec: spec, Fingerprint: fingerprint, Holder: holder, Token: reserved.lease.Token,
		Timeout: cmp.Or(r.timeout, d.cfg.JobTimeout),
	})
	step.End(storeFailure(err))
	if err != nil {
		d.store.RecordError("create", err)
		d.failUncertain(reserved, r.counted)
		r.counted = nil
		return nil, false, store.Unavailable()
	}
	return job, created, nil
}

// refuse returns the refusal of a request, unless the job has a record: then the record is the answer.
func (d *Dispatcher) refuse(ctx context.Context, id core.JobID, fingerprint string, refusal *wire.Error) (Placement, *wire.Error) {
	if refusal.Code == wire.SchedulerDependencyDown {
		return Placement{}, refusal
	}
	job, err := d.store.Get(ctx, id)
	switch {
	case err == nil && !job.Refused():
		return placementOf(job, fingerprint)
	case err != nil && !errors.Is(err, store.ErrNoJob):
		d.store.RecordError("get", err)
		return Placement{}, store.Unavailable()
	}
	return Placement{}, refusal
}

// failUncertain fails a job whose Create did not return: the record may have been written, but the caller was refused and the
// job will not be delivered. A record that another request has created meanwhile is left alone.
func (d *Dispatcher) failUncertain(r reservation, counted *admission) {
	d.uncertain.Store(r.lease.Job, nil)
	d.tasks.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, d.cfg.JobTimeout)
		defer cancel()
		known := d.store.Retry(ctx, func() error {
			_, err := d.store.Apply(ctx, store.ApplyParams{
				Job: r.lease.Job, Event: core.EventFail, Reason: core.ReasonDependencyDown, AnyHolder: true, HeldToken: r.lease.Token,
			})
			return err
		})
		d.uncertain.Delete(r.lease.Job)
		if known {
			d.slots.giveUp(&r)
		} else {
			r.member.EndJob()
		}
		switch {
		case counted != nil && known:
			d.limits.release(counted)
		case counted != nil: // the job may exist; its count expires
			d.limits.forget(counted)
		}
	})
}

// placementOf returns the placement of a job that exists: the node that has it or had it last, whatever its state. Only a job
// that was refused is answered with its refusal.
func placementOf(job *core.Job, fingerprint string) (Placement, *wire.Error) {
	switch {
	case job.Fingerprint != fingerprint:
		return Placement{}, mismatchError(job.ID)
	case job.Refused():
		e := wire.Errorf(wire.AllCandidatesFullOrFailed, "every node that could take the job refused it: try again")
		e.JobID = string(job.ID)
		e.Reasons = make(map[string]int)
		for _, past := range job.History {
			e.Reasons[string(past.Reason)]++
		}
		return Placement{}, e.RetryIn(time.Second)
	}
	return Placement{Job: job.ID, Node: job.Node, Attempt: job.Attempt}, nil
}

// Cancel ends a job as CANCELLED, unless it has ended. It returns the record and whether the job is cancelled. The slot stays
// taken until the node stops listing the job.
func (d *Dispatcher) Cancel(ctx context.Context, id core.JobID) (*core.Job, bool, error) {
	return d.endJob(ctx, id, core.EventCancel, core.ReasonCancelled)
}

// Abandon fails a job that has not ended, and reports whether there is such a job. The outcome of a job that has ended is
// reported again, in case that report was lost.
func (d *Dispatcher) Abandon(ctx context.Context, id core.JobID, reason core.Reason) (known bool, err error) {
	job, ended, err := d.endJob(ctx, id, core.EventFail, reason)
	var e *wire.Error
	switch {
	case errors.As(err, &e) && e.Code == wire.NotFound:
		return false, nil
	case err != nil:
		return false, err
	case !ended && job.Refused():
		return false, nil
	case !ended:
		if err := d.runner.reportOutcome(ctx, job, time.Time{}); err != nil {
			d.store.RecordError("outcome", err)
			return true, store.CallError(ctx)
		}
	}
	return true, nil
}

// endJob ends a job by an event, unless it has ended. It returns the record and whether the event ended it.
func (d *Dispatcher) endJob(ctx context.Context, id core.JobID, event core.Event, reason core.Reason) (*core.Job, bool, error) {
	applied, err := d.store.Apply(ctx, store.ApplyParams{
		Job: id, Event: event, AnyHolder: true, Reason: reason, Seen: d.inFlight.record(id),
	})
	switch {
	case err != nil:
		d.store.RecordError("stop", err)
		return nil, false, store.CallError(ctx)
	case applied.Outcome == store.NoJob:
		return nil, false, UnknownJob(id)
	}
	if applied.Outcome.Stands() {
		d.runner.traceOutcome(&applied)
		d.runner.jobEnded(&applied)
		if err := d.runner.reportOutcome(ctx, applied.Job, time.Time{}); err != nil {
			d.store.RecordError("outcome", err)
			return nil, false, store.CallError(ctx) // the slot stays taken until the outcome was reported
		}
		d.slots.releaseOrRevoke(applied.Job, false)
	}
	return applied.Job, applied.Outcome.Stands(), nil
}

// EndedElsewhere removes an in-flight job that has ended on another instance.
func (d *Dispatcher) EndedElsewhere(id core.JobID) { d.inFlight.remove(id) }

// Job returns the record of a job. A dispatched job that its node has acknowledged is ACKED, which its lease says and not its
// record.
func (d *Dispatcher) Job(ctx context.Context, id core.JobID) (*core.Job, error) {
	job, err := d.store.Get(ctx, id)
	if err != nil {
		if errors.Is(err, store.ErrNoJob) {
			return nil, UnknownJob(id)
		}
		d.store.RecordError("get", err)
		return nil, store.CallError(ctx)
	}
	jobs := []*core.Job{job}
	if err := d.setAcked(ctx, jobs); err != nil {
		return nil, err
	}
	return jobs[0], nil
}

// Jobs lists jobs, the newest first.
func (d *Dispatcher) Jobs(ctx context.Context, p store.ListParams) ([]*core.Job, error) {
	state, limit := p.State, p.Limit
	if state == core.StateAcked || state == core.StateDispatched {
		p.State, p.Limit = core.StateDispatched, 0 // the lease says which of the two a job is
	}
	jobs, err := d.store.List(ctx, p)
	if err != nil {
		d.store.RecordError("list", err)
		return nil, store.CallError(ctx)
	}
	if err := d.setAcked(ctx, jobs); err != nil {
		return nil, err
	}
	if state != 0 {
		jobs = slices.DeleteFunc(jobs, func(job *core.Job) bool { return job.State != state })
	}
	if state == 0 || state.Terminal() {
		jobs = d.addRemembered(jobs, &p)
	}
	if limit > 0 && len(jobs) > limit {
		jobs = jobs[:limit]
	}
	return jobs, nil
}

// addRemembered adds ended jobs that this instance remembers and the store does not list any more.
func (d *Dispatcher) addRemembered(jobs []*core.Job, p *store.ListParams) []*core.Job {
	listed := make(map[core.JobID]bool, len(jobs))
	for _, job := range jobs {
		listed[job.ID] = true
	}
	for _, job := range d.cfg.Ring.Search(p) {
		if !listed[job.ID] {
			jobs = append(jobs, job)
		}
	}
	return p.Page(jobs)
}

// setAcked replaces dispatched jobs that their nodes have acknowledged by copies in state ACKED.
func (d *Dispatcher) setAcked(ctx context.Context, jobs []*core.Job) error {
	var refs []core.LeaseRef
	for _, job := range jobs {
		if job.State == core.StateDispatched {
			refs = append(refs, leaseOf(job))
		}
	}
	leases, err := d.store.Leases(ctx, refs...)
	if err != nil {
		d.store.RecordError("lease", err)
		return store.CallError(ctx)
	}
	for i, job := range jobs {
		if job.State != core.StateDispatched {
			continue
		}
		if leases[0].State == core.LeaseRunning {
			acked := *job
			acked.State, _ = job.State.Next(core.EventAck)
			jobs[i] = &acked
		}
		leases = leases[1:]
	}
	return nil
}

// UnknownJob is the error for a job that is not known.
func UnknownJob(id core.JobID) *wire.Error {
	return wire.Errorf(wire.NotFound, "no job %s is known; the record of an ended job is kept for a limited time", id)
}

func mismatchError(id core.JobID) *wire.Error {
	return &wire.Error{
		Code: wire.RequestMismatch, Field: "request_id", JobID: string(id),
		Detail: "request_id: it was used before with other content; use a new one, or send the same content",
	}
}
