package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/tenants"
	"github.com/lingua-scheduler/lingua/internal/tracing"
	"github.com/lingua-scheduler/lingua/internal/waiting"
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
	// Wait says how long the request waits for a free slot; nil: it does not.
	Wait *Wait
	// Previous is the job of the same session before this one, if the caller knows it.
	Previous PreviousJob
	// Traceparent is the W3C trace context of the caller, to which the trace of the job links; empty or invalid: it has none.
	Traceparent string
	// Steps has the steps of the trace before the dispatch; nil: there are none.
	Steps *tracing.Steps

	test *testJob // set only if the job is a test job
}

// Wait says how long a request waits for a free slot.
type Wait struct {
	Since time.Time // when the request began to wait
	Until time.Time // it is refused then if no node has a free slot
	// Join is when it is refused if no registered node is capable of it: a capable node may be about to register.
	Join time.Time
	// Announce is called when the request has waited for announceAfter, with how much longer that will probably take, or
	// waiting.EstimateUnknown; nil: it is not.
	Announce func(estimate time.Duration)
}

// call is one request until a node has its job or it is refused.
type call struct {
	Request
	ctx         context.Context // of the caller; it ends also when the request is cancelled while it waits
	id          core.JobID
	fingerprint string
	trace       *tracing.Trace // of the job; nil: tracing is off

	count  *tenants.Count  // what it counts for the limits of its tenant; nil: it is not counted, or its job is
	ticket *waiting.Ticket // nil: it has not waited for a slot

	tries     int
	tried     time.Time               // when the last try began
	waited    time.Duration           // between tries
	announced bool                    // the caller was told that the request waits
	cancel    context.CancelCauseFunc // ends ctx; nil: the request has not waited

	refused *refusedSelection // the last selection for the request, if it found no slot
}

// Dispatch gives a job to a node and returns when it was delivered. With Request.Wait it may wait for a slot first, in the queues that all
// instances share. The same request gives the same job, however often it is sent, and waits once. The error, if any, is a *wire.Error.
func (d *Dispatcher) Dispatch(ctx context.Context, r Request) (Placement, error) {
	c := &call{Request: r, ctx: ctx, id: r.Job(), fingerprint: r.Fingerprint(), tried: time.Now()}
	d.beginTrace(c)
	placed, refusal := d.calls.do(c, d.place)
	d.metrics.ObserveDispatch(time.Since(c.tried), refusal != nil, c.exemplar(refusal != nil))
	if refusal != nil {
		return Placement{}, d.refused(c, refusal)
	}
	placed.Waited = c.waited
	return placed, nil
}

// refused counts a request that was refused, after it had waited, and returns the refusal.
func (d *Dispatcher) refused(c *call, refusal *wire.Error) *wire.Error {
	waited := time.Duration(0)
	if c.waits() {
		waited = time.Since(c.Wait.Since)
		if refusal.Reasons[string(core.ReasonFull)] > 0 {
			refusal = d.selector.explainFull(&c.Spec, refusal)
		}
	}
	d.metrics.Refusals.WithLabelValues(string(refusal.Code)).Inc()
	d.selector.countRefusal(refusal, c.refused)
	if refusal.Code == wire.RateLimited {
		d.limits.CountRefusal(c.Tenant, c.count.Limit())
	}
	d.cfg.Observer.RequestRefused(c.Direction, refusal.Code, waited)
	return refusal
}

// isLeaving reports whether this instance takes no job of a request any more, because it is shutting down.
func (d *Dispatcher) isLeaving(r *Request) bool {
	return d.runner.draining.Load() || d.leaving.Load() && r.Utterance.Turn == 0
}

// place tries to place the job of a request, until a node has it, its time is over, or waiting makes no sense.
func (d *Dispatcher) place(c *call) (placed Placement, refusal *wire.Error) {
	defer func() {
		c.ticket.Leave()
		c.count.Release()
		d.cancels.end(c, refusal == nil)
	}()
	placed, refusal = d.try(c, "")
	for refusal != nil && c.mayWait(refusal) && !d.isLeaving(&c.Request) {
		if c.ctx.Err() != nil {
			return Placement{}, c.gaveUp()
		}
		offered, e := d.await(c, refusal)
		switch {
		case e != nil:
			refusal = e
		case offered == "" && refusal.Code == wire.AllCandidatesFullOrFailed: // without an offer there is no slot
		case offered == "" && c.ctx.Err() != nil:
			return Placement{}, c.gaveUp()
		default:
			placed, refusal = d.try(c, offered)
		}
	}
	return placed, refusal
}

// try selects a node, reserves a slot, creates the record of the job and delivers the job, once, unless the job exists. With an offer only
// the offered node is tried.
func (d *Dispatcher) try(c *call, offered core.NodeID) (_ Placement, refusal *wire.Error) {
	c.tries++
	c.tried = time.Now()
	step := c.Steps.Begin(tracing.SpanDispatch)
	step.Link(c.Traceparent)
	defer func() { step.End(codeOf(refusal)) }()
	if f := d.inFlight.get(c.id); f != nil {
		return placementOf(f.record(), c.fingerprint)
	}
	if _, uncertain := d.uncertain.Load(c.id); uncertain {
		return Placement{}, store.Unavailable() // its record may exist and is about to be failed: it is no answer
	}
	d.inFlight.increment() // before draining is read: either Drain waits for this request, or the request sees that it drains
	defer d.inFlight.decrement()
	if d.isLeaving(&c.Request) {
		return d.answer(c, errLeaving())
	}
	decide := d.decide.Context()
	var claims *waiting.Claims // nil: nobody waits
	if offered == "" {
		claims = d.Waiting.Claims(decide)
	}
	if claims != nil && c.tries == 1 && c.waits() && claims.Ahead(&c.Spec) {
		return d.answer(c, waiting.Full())
	}
	if c.count == nil && !c.TestJob {
		c.count = d.limits.Count(&c.Spec, c.waitsUntil())
	}
	if c.count != nil { // nil: its tenant has no limit
		if e := c.count.Admit(decide, c.longest(d.cfg)); e != nil {
			return d.answer(c, e)
		}
	}
	previous := d.spread.prepare(decide, &c.Request)
	slot := slotRequest{
		job: c.id, spec: &c.Spec, attempt: 1, token: d.tokens.next(),
		claims: claims, firstPool: d.affinePool(&c.Previous), offered: offered, steps: c.Steps,
	}
	reserved, refusal := d.selector.selectNode(decide, &slot)
	c.refused = slot.refused
	switch {
	case refusal != nil && offered != "":
		return Placement{}, refusal // its record was looked for when the request began to wait
	case refusal != nil:
		return d.answer(c, refusal)
	case c.tries > 1 && time.Now().After(c.Wait.Until):
		d.slots.giveUp(&reserved)
		return Placement{}, waiting.Full()
	}
	c.ticket.Served()
	return d.run(c, &reserved, previous, &step)
}

// run creates the record of a job that has a slot, and delivers the job.
func (d *Dispatcher) run(c *call, reserved *reservation, previous core.NodeID, step *tracing.Step) (Placement, *wire.Error) {
	now := time.Now()
	if c.waits() {
		c.Utterance.WaitMS = max(0, now.Sub(c.Wait.Since).Milliseconds())
	}
	job, created, refusal := d.create(d.decide.Context(), c, reserved)
	switch {
	case refusal != nil:
		return Placement{}, refusal
	case !created:
		d.slots.giveUp(reserved)
		return placementOf(job, c.fingerprint)
	}
	c.count.Created()
	step.End("")
	c.Steps.ExportWait(now, job.Created)
	run := d.runner.start(job, reserved, c.expects(), c.trace)
	run.entry.watchBy(c.test)
	placed, refusal := run.run(d.tasks.Context()) // the caller may leave; the job continues
	c.refused = run.refusedSelection
	if c.test != nil && run.job.State == core.StateDispatched {
		c.test.delivered = time.Now()
	}
	if division := d.fleet.Division(); division != nil && division.AffinitySeconds > 0 {
		placed.Pool = reserved.pool.ID
	}
	if refusal == nil && previous != "" {
		d.metrics.CountSuccession(placed.Node == previous)
	}
	return placed, refusal
}

// expects says what the caller of a job that has a record still expects.
func (c *call) expects() caller {
	switch {
	case c.TestJob:
		return callerNone // the record says why the job was not delivered
	case c.UntilPlaced:
		return callerUntilPlaced
	}
	return callerRefusable
}

// timeout returns the time within which the job of a request ends.
func (c *call) timeout(cfg *Config) time.Duration {
	if c.test != nil {
		return c.test.timeout
	}
	return cfg.JobTimeout
}

// longest returns how long a job counts for its tenant at most.
func (c *call) longest(cfg *Config) time.Duration {
	if c.Utterance.Turn > 0 {
		return c.timeout(cfg) + cfg.AudioGrace // it may wait for its audio once
	}
	return c.timeout(cfg)
}

// errLeaving is the refusal of a request on an instance that stops.
func errLeaving() *wire.Error {
	e := wire.Errorf(wire.AllCandidatesFullOrFailed,
		"this scheduler is shutting down and takes no new jobs: try again, or try another instance")
	return e.RetryIn(time.Second)
}

// create writes the record of a job that has a slot, unless there is one. An error means that it may have been written.
func (d *Dispatcher) create(ctx context.Context, c *call, reserved *reservation) (job *core.Job, created bool, _ *wire.Error) {
	spec := c.Spec
	spec.Pool, spec.Admission = reserved.pool, c.count.Name()
	holder := core.Holder{Attempt: 1, Node: reserved.lease.Node, Epoch: reserved.epoch}
	step := c.Steps.Begin(tracing.SpanCreate)
	job, created, err := d.store.Create(ctx, store.CreateParams{
		ID: reserved.lease.Job, Spec: spec, Fingerprint: c.fingerprint, Holder: holder, Token: reserved.lease.Token,
		Timeout: c.timeout(d.cfg),
	})
	step.End(storeFailure(err))
	if err != nil {
		d.store.RecordError("create", err)
		d.failUncertain(*reserved, c.count)
		c.count = nil
		return nil, false, store.Unavailable()
	}
	return job, created, nil
}

// answer returns the refusal of a request, unless the job has a record: then the record is the answer.
func (d *Dispatcher) answer(c *call, refusal *wire.Error) (Placement, *wire.Error) {
	if refusal.Code == wire.SchedulerDependencyDown {
		return Placement{}, refusal
	}
	job, err := d.store.Get(d.decide.Context(), c.id)
	switch {
	case err == nil && !job.Refused():
		return placementOf(job, c.fingerprint)
	case err != nil && !errors.Is(err, store.ErrNoJob):
		d.store.RecordError("get", err)
		return Placement{}, store.Unavailable()
	}
	return Placement{}, refusal
}

// failUncertain fails a job whose Create did not return: the record may have been written, but the caller was refused and the
// job will not be delivered. A record that another request has created meanwhile is left alone.
func (d *Dispatcher) failUncertain(r reservation, count *tenants.Count) {
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
		if known {
			count.Release()
		} else {
			count.Forget()
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

func mismatchError(id core.JobID) *wire.Error {
	return &wire.Error{
		Code: wire.RequestMismatch, Field: "request_id", JobID: string(id),
		Detail: "request_id: it was used before with other content; use a new one, or send the same content",
	}
}
