package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// Placement says who has a job.
type Placement struct {
	Job     core.JobID
	Node    core.NodeID
	Attempt int
}

// Request is a wish to have something translated.
type Request struct {
	core.Spec
	// Unique says that the request id was made for this call, so that nobody can be asking for the same.
	Unique bool
	// Patient says that the caller is not to be refused once a node was found: the job is then seen through until it
	// ends, whoever refuses it.
	Patient bool

	since time.Time // when it began to wait for a node; zero: it does not wait
}

// Dispatch gives a job to a node and returns when it was delivered. The same request gives the same job,
// however often it is sent. The error, if any, is a *wire.Error.
func (d *Dispatcher) Dispatch(ctx context.Context, r Request) (Placement, error) {
	began := time.Now()
	p, err := d.dispatch(ctx, &r)
	d.metrics.ObserveDispatch(time.Since(began), err != nil)
	if err != nil {
		d.metrics.Refusals.WithLabelValues(string(err.Code)).Inc()
		return Placement{}, err
	}
	return p, nil
}

func (d *Dispatcher) dispatch(ctx context.Context, r *Request) (Placement, *wire.Error) {
	id := r.Job()
	content := r.Fingerprint()
	if r.Unique {
		return d.begin(id, content, r)
	}
	call, first := d.calls.join(id, content)
	if first {
		call.placement, call.err = d.begin(id, content, r)
		d.calls.leave(id, call)
		return call.placement, call.err
	}
	if call.content != content {
		return Placement{}, mismatch(id)
	}
	select {
	case <-call.done:
		return call.placement, call.err
	case <-ctx.Done():
		return Placement{}, gone(ctx)
	}
}

// begin makes the job, unless there is one.
func (d *Dispatcher) begin(id core.JobID, content string, r *Request) (Placement, *wire.Error) {
	if f := d.flights.get(id); f != nil {
		return answer(f.snapshot(), content)
	}
	if _, doubtful := d.doubtful.Load(id); doubtful {
		return Placement{}, down() // its record may stand, and is about to be failed: it is no answer
	}
	d.flights.enter() // before the look at draining: whoever drains waits for us, or we see that it does
	defer d.flights.leave()
	if d.draining.Load() || d.leaving.Load() && r.Utterance.Turn == 0 {
		e := wire.Errorf(wire.AllCandidatesFullOrFailed, "this scheduler is shutting down and takes no new jobs: try again, or try another instance")
		return d.settled(d.decide.Context(), id, content, e.RetryIn(time.Second))
	}
	decide := d.decide.Context()
	s := search{job: id, spec: &r.Spec, attempt: 1, token: d.token(), again: !r.since.IsZero()}
	found, refusal := d.find(decide, &s)
	if refusal != nil {
		return d.settled(decide, id, content, refusal)
	}
	if !r.since.IsZero() {
		r.Utterance.WaitMS = max(0, time.Since(r.since).Milliseconds())
	}
	holder := core.Holder{Attempt: 1, Node: found.ref.Node, Epoch: found.epoch}
	job, created, err := d.store.Create(decide, store.CreateParams{
		ID: id, Spec: r.Spec, Fingerprint: content, Holder: holder, Token: s.token, Timeout: d.cfg.JobTimeout,
	})
	switch {
	case err != nil:
		d.storeFailed("create", err)
		d.abandon(found)
		return Placement{}, down()
	case !created:
		d.release(found.ref, found.member.Node, false)
		return answer(job, content)
	}
	return d.embark(job, !r.Patient).run(d.life) // whoever asked may leave; the job goes on
}

// settled answers what the record says, if there is one, before a request is refused.
func (d *Dispatcher) settled(ctx context.Context, id core.JobID, content string, refusal *wire.Error) (Placement, *wire.Error) {
	if refusal.Code == wire.SchedulerDependencyDown {
		return Placement{}, refusal
	}
	job, err := d.store.Get(ctx, id)
	switch {
	case err == nil && !job.Refused():
		return answer(job, content)
	case err != nil && !errors.Is(err, store.ErrNoJob):
		d.storeFailed("get", err)
		return Placement{}, down()
	}
	return Placement{}, refusal
}

// answer is what a record says to somebody who asks for its job, for the first time or again: who has it or
// had it last. How it ended the record says; only a job that was refused is as good as none.
func answer(job *core.Job, content string) (Placement, *wire.Error) {
	switch {
	case job.Fingerprint != content:
		return Placement{}, mismatch(job.ID)
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

func mismatch(id core.JobID) *wire.Error {
	return &wire.Error{
		Code: wire.RequestMismatch, Field: "request_id", JobID: string(id),
		Detail: "request_id: it was used before with other content; use a new one, or send the same content",
	}
}

// gone is the answer to a caller whom the store kept waiting, or who went away.
func gone(ctx context.Context) *wire.Error {
	if ctx.Err() != nil {
		return wire.Errorf(wire.DeadlineExceeded, "the request ended before it was decided")
	}
	return down()
}

// down is the refusal when the store does not answer.
func down() *wire.Error {
	return wire.Errorf(wire.SchedulerDependencyDown, "the shared store does not answer, so nothing can be granted safely: try again").RetryIn(time.Second)
}

// abandon clears up after a record whose fate is unknown: if it was written nobody will deliver it, and the
// caller was told so. If somebody else's record stands by now it is left alone.
func (d *Dispatcher) abandon(f found) {
	d.doubtful.Store(f.ref.Job, nil)
	d.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, d.cfg.JobTimeout)
		defer cancel()
		known := d.persist(ctx, func() error {
			_, err := d.store.Apply(ctx, store.ApplyParams{
				Job: f.ref.Job, Event: core.EventFail, Reason: core.ReasonDependencyDown, AnyHolder: true, HeldToken: f.ref.Token,
			})
			return err
		})
		d.doubtful.Delete(f.ref.Job)
		if known {
			d.release(f.ref, f.member.Node, false)
		}
	})
}

// calls lets one caller of several that ask for the same job do the work.
type calls struct {
	mu sync.Mutex
	m  map[core.JobID]*call
}

type call struct {
	content   string
	done      chan struct{}
	placement Placement
	err       *wire.Error
}

func (c *calls) init() { c.m = make(map[core.JobID]*call) }

func (c *calls) join(id core.JobID, content string) (_ *call, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.m[id]; one != nil {
		return one, false
	}
	one := &call{content: content, done: make(chan struct{})}
	c.m[id] = one
	return one, true
}

func (c *calls) leave(id core.JobID, one *call) {
	c.mu.Lock()
	delete(c.m, id)
	c.mu.Unlock()
	close(one.done)
}
