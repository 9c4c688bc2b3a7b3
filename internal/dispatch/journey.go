package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// journey carries one job to a node that takes it. It ends when the job was delivered, when it was given
// up, or when somebody else decided about it.
type journey struct {
	d      *Dispatcher
	f      *flight
	job    *core.Job
	owner  core.Token      // while RETRYING: the name under which the retry is ours
	tried  []core.NodeID   // had the job
	never  []core.Holder   // of these, those who may still have it, or cannot do it, until they register again
	busy   []moment        // of these, those who refused it
	shun   core.InstanceID // whose nodes are better left alone
	failed []core.NodeID   // of these, those who gave it up
	// awaited says that the caller who asked for the job still waits for it to be placed, and can be refused.
	awaited bool
	// patient says that the caller waits too, and is only refused while nothing of the job has left this instance.
	patient bool
	// undecided says that the store could not be asked before the context ended.
	undecided bool
}

// cause is why an attempt is over.
type cause struct {
	reason core.Reason
	detail string
	// freed says that the node does not seem to have the job: its slot is not kept while another is looked for.
	freed bool
	// certain says that the node itself said so. Else it may yet turn up with the job.
	certain bool
	// spares says that the failure costs no attempt.
	spares bool
}

// embark begins the journey of a job that was just recorded as found.
func (d *Dispatcher) embark(job *core.Job, awaited bool) *journey {
	now := time.Now()
	f := d.flights.add(&flight{
		id: job.ID, deadline: now.Add(d.cfg.JobTimeout), job: job, ends: now.Add(d.cfg.AttemptTimeout),
	})
	return &journey{d: d, f: f, job: job, awaited: awaited, patient: !awaited}
}

// resume begins a journey of a job that was recorded earlier, here or elsewhere.
func (d *Dispatcher) resume(job *core.Job) *journey {
	left := min(d.cfg.JobTimeout, max(d.remaining(job), 0))
	now := time.Now()
	f := d.flights.add(&flight{id: job.ID, deadline: now.Add(left), job: job, ends: now.Add(d.cfg.AttemptTimeout)})
	return d.onward(job, f)
}

// remaining is how much of its time a job has left. It is counted from the job's creation, not from its last step:
// otherwise each takeover would give the job the time anew that has passed since.
func (d *Dispatcher) remaining(job *core.Job) time.Duration {
	if awaitsSound(job) {
		return job.Deadline.Sub(job.Retry) // what it had left when it was suspended
	}
	return job.Deadline.Sub(d.store.Clock(job.ID))
}

// onward is a journey of a job that is in flight here.
func (d *Dispatcher) onward(job *core.Job, f *flight) *journey {
	j := &journey{d: d, f: f, job: job}
	for _, past := range job.History {
		if !past.Ended.IsZero() {
			j.avoid(past.Holder, past.Reason)
		}
	}
	return j
}

// avoid notes that a node had the job and why it has not any more. One that never got it because its sound was missing is
// as good as any other.
func (j *journey) avoid(holder core.Holder, reason core.Reason) {
	node := holder.Node
	switch reason {
	case core.ReasonAudioLost:
		return
	case core.ReasonNodeBusy, core.ReasonDeliveryRefused: // it does not have the job, and may have room in a while
		j.busy = append(j.busy, moment{node, time.Now()})
	case core.ReasonNodeFailed:
		j.failed = append(j.failed, node)
	case core.ReasonACKTimeout, core.ReasonDeliveryUnknown:
		// It may be the instance it is connected with that hears nothing.
		if n := j.d.fleet.Node(node); n != nil && n.Declared().Owner != j.d.cfg.Instance {
			j.shun = n.Declared().Owner
		}
		j.never = append(j.never, holder)
	default:
		j.never = append(j.never, holder)
	}
	j.tried = append(j.tried, node)
}

// excluded are those who are not asked again although nobody else can take the job now. If there is nobody else at all, a
// second try is better than none: one that gave the job up is asked again, and so is one that has registered again since,
// for a node does not have what it did not list then.
func (j *journey) excluded() []core.NodeID {
	var list []core.NodeID
	again := slices.Clone(j.failed)
	for _, h := range j.never {
		if n := j.d.fleet.Node(h.Node); n != nil && n.Declared().Epoch != h.Epoch {
			again = append(again, h.Node)
		} else {
			list = append(list, h.Node)
		}
	}
	for _, b := range j.busy {
		if time.Since(b.at) < busyFor {
			list = append(list, b.node)
		}
	}
	if len(again) > 0 && j.d.otherThan(j.tried, &j.job.Spec) {
		list = append(list, again...)
	}
	return list
}

// moment is when a node refused a job.
type moment struct {
	node core.NodeID
	at   time.Time
}

// busyFor is how long a node that refused a job is not asked again for it.
const busyFor = time.Second

// run delivers the job, to another node if need be, until one has it.
func (j *journey) run(ctx context.Context) (Placement, *wire.Error) {
	for {
		began := time.Now()
		err := j.deliver()
		var going bool
		switch {
		case err == nil, !errors.Is(err, ErrBusy) && !errors.Is(err, ErrRefused) && !errors.Is(err, ErrNoAudio) && j.confirmed(ctx, began):
			j.delivered()
			return Placement{Job: j.job.ID, Node: j.job.Node, Attempt: j.job.Attempt}, nil
		case errors.Is(err, ErrNoAudio):
			j.shelve(ctx, cause{reason: core.ReasonAudioLost, freed: true, certain: true, spares: true})
		case errors.Is(err, ErrBusy):
			going = j.leave(ctx, cause{reason: core.ReasonNodeBusy, freed: true, certain: true, spares: true})
		case errors.Is(err, ErrRefused):
			going = j.leave(ctx, cause{reason: core.ReasonDeliveryRefused, freed: true, certain: true, spares: true})
		default:
			going = j.leave(ctx, cause{reason: core.ReasonDeliveryUnknown})
		}
		if !going {
			return answer(j.job, j.job.Fingerprint)
		}
	}
}

// deliver hands the job to the node that holds it.
func (j *journey) deliver() error {
	n := j.d.fleet.Node(j.job.Node)
	if n == nil {
		return ErrRefused // it left between the reservation and now; nothing was sent
	}
	o := &j.job.Options
	timeout := min(j.d.cfg.AttemptTimeout, time.Until(j.f.deadline))
	a := &wire.Assignment{
		JobID: string(j.job.ID), AttemptID: j.job.Attempt, NodeID: string(j.job.Node), Epoch: int64(j.job.Epoch),
		SessionID: string(j.job.Session), SrcLang: string(j.job.Direction.Src), TgtLang: string(j.job.Direction.Tgt),
		AudioRef: j.job.AudioRef,
		Options: wire.DispatchOptions{
			RequireTTS: o.RequireTTS, RequiredServices: o.RequiredServices, RequiredModels: o.RequiredModels,
			Features: o.Features, Region: o.Region,
		},
		DeadlineMS: time.Now().Add(timeout).UnixMilli(), TimeoutMS: timeout.Milliseconds(),
	}
	err := j.d.transport.Deliver(j.d.deliver.Context(), n.Declared(), a)
	if err == nil {
		j.d.metrics.CountDelivery()
		return nil
	}
	result := "unknown"
	switch {
	case errors.Is(err, ErrBusy):
		result = "busy"
	case errors.Is(err, ErrRefused):
		result = "refused"
	}
	j.d.metrics.Deliveries.WithLabelValues(result).Inc()
	j.d.log.Info("delivery failed", "job_id", j.job.ID, "node_id", j.job.Node, "attempt_id", j.job.Attempt, "result", result, "error", err)
	return err
}

// delivered waits for the node's word from now on.
func (j *journey) delivered() {
	j.d.spread.note(j.job.SessionRef(), j.job.Node)
	j.d.metrics.CountSelection()
	j.f.wait(j.job.Token, phaseACK, time.Now().Add(j.d.cfg.ACKTimeout), j.d.dueFunc(j.f))
}

// confirmed waits, after a delivery that may have arrived, for the rest of the time in which the node would
// have confirmed it, and reports whether it did.
func (j *journey) confirmed(ctx context.Context, began time.Time) bool {
	if left := time.Until(began.Add(j.d.cfg.ACKTimeout)); left > 0 {
		backoff.Sleep(ctx, left)
	}
	leases, err := j.d.store.Leases(ctx, leaseOf(j.job))
	return err == nil && leases[0].State == core.LeaseRunning
}

// missed notes, of an attempt that is over, that the node did not confirm it in time.
func (j *journey) missed(c cause) {
	if c.reason != core.ReasonACKTimeout && c.reason != core.ReasonDeliveryUnknown {
		return
	}
	j.d.metrics.ACKTimeouts.Inc()
	if n := j.d.fleet.Node(j.job.Node); n != nil {
		n.RecordMissedACK(j.d.fleet.Now())
	}
}

// leave gives up the current attempt and finds another node. It reports false when the journey is over:
// the record then says how.
func (j *journey) leave(ctx context.Context, c cause) bool {
	return j.giveUp(ctx, c) && j.seek(ctx, c)
}

// proceed finds another node for a job whose attempt was given up, and delivers it there. Nobody waits for
// the answer; the record says how it ended.
func (j *journey) proceed(ctx context.Context, c cause) {
	if j.seek(ctx, c) {
		_, _ = j.run(ctx)
	}
}

// giveUp records that the current attempt is over: RETRYING in our name, or FAILED when nothing is left to
// try. It reports whether there is a retry to be made and it is ours.
func (j *journey) giveUp(ctx context.Context, c cause) bool {
	strict := j.job.Options.Strict && j.job.Options.PreferredNode != ""
	switch {
	case !time.Now().Before(j.f.deadline):
		j.end(ctx, c, core.ReasonDeadline)
		return false
	case !c.spares && j.job.Attempt > j.d.cfg.MaxRetry:
		j.end(ctx, c, core.ReasonMaxRetry)
		return false
	case strict && c.spares && j.untold(c):
		j.end(ctx, c, core.ReasonAllFull)
		return false
	case strict:
		j.end(ctx, c, c.reason) // the preferred node or nobody
		return false
	}
	if !j.d.cfg.HasAudio(j.job) {
		if j.shelve(ctx, c) {
			j.missed(c)
			j.d.metrics.Retries.WithLabelValues(string(c.reason)).Inc()
		}
		return false
	}
	j.avoid(j.job.Holder, c.reason)
	j.owner = j.d.token()
	if !j.apply(ctx, store.ApplyParams{
		Event: core.EventRetry, Holder: j.job.Holder, Owner: j.owner, RetryFor: retryLease, Reason: c.reason, Detail: c.detail,
	}) {
		return false
	}
	j.missed(c)
	j.d.metrics.Retries.WithLabelValues(string(c.reason)).Inc()
	j.d.log.Info("attempt given up", "job_id", j.job.ID, "node_id", j.job.Node, "attempt_id", j.job.Attempt, "reason", c.reason)
	if c.freed {
		// The slot is free, but until the job has moved on somebody must be able to find it here.
		j.d.release(leaseOf(j.job), j.d.fleet.Node(j.job.Node), true)
	}
	return j.f.seek(j.job)
}

// retryLease is how long another instance must wait before it may take over a retry of this one, which renews it after half
// of that.
const retryLease = 3 * time.Second

// storeBackoff is between two tries of an operation of the store, and between two searches for a node.
var storeBackoff = backoff.Backoff{Min: 20 * time.Millisecond, Max: 500 * time.Millisecond}

// seek finds another node for a job that is RETRYING in our name, however long it takes, and moves the job
// there. It reports false when the journey is over, or goes on without the caller: who asked for the job is not
// kept waiting until a node turns up.
func (j *journey) seek(ctx context.Context, c cause) bool {
	attempt := j.job.Attempt
	if !c.spares {
		attempt++
	}
	renew := time.Now().Add(retryLease / 2)
	for retry, first := storeBackoff, true; ; first = false {
		s := search{job: j.job.ID, spec: &j.job.Spec, attempt: attempt, token: j.d.token(), tried: j.tried, shun: j.shun, accepted: true, again: !first}
		if s.again {
			s.tried = j.excluded() // there was nobody else
		}
		to, refusal := j.d.find(j.d.decide.Context(), &s) // which ends with this instance's right to grant
		switch {
		case refusal == nil:
			return j.move(ctx, c, to)
		case ctx.Err() != nil:
			return false // closing: the retry is there for whoever takes it over
		case c.spares && refusal.Code != wire.SchedulerDependencyDown && j.untold(c):
			j.end(ctx, c, core.ReasonAllFull)
			return false
		case !time.Now().Add(retry.Next()).Before(j.f.deadline):
			j.end(ctx, c, core.ReasonDeadline)
			return false
		}
		if j.d.draining.Load() {
			j.handBack(ctx)
			return false
		}
		if j.awaited {
			alone := *j
			alone.awaited = false
			j.d.background(func(ctx context.Context) { alone.proceed(ctx, c) })
			return false
		}
		if !retry.Wait(ctx) {
			return false
		}
		if time.Now().After(renew) {
			if !j.apply(ctx, store.ApplyParams{
				Event: core.EventTakeover, Holder: j.waiting(), Owner: j.owner, RetryFor: retryLease,
			}) {
				return false
			}
			renew = time.Now().Add(retryLease / 2)
		}
	}
}

// handBack leaves a job that waits for a node to whoever takes it over: this instance is about to go.
func (j *journey) handBack(ctx context.Context) {
	if j.apply(ctx, store.ApplyParams{Event: core.EventTakeover, Holder: j.waiting(), Owner: j.owner}) {
		j.d.left.Store(true)
		j.d.flights.remove(j.job.ID)
	}
}

// untold reports whether the caller still waits, and the job certainly never reached a node, so that the
// caller can be refused.
func (j *journey) untold(c cause) bool {
	told := !j.awaited && (!j.patient || c.reason != core.ReasonDeliveryRefused)
	return !told && c.certain && !slices.ContainsFunc(j.job.History, func(a core.Attempt) bool {
		return !a.Ended.IsZero() && a.Reason != core.ReasonNodeBusy && a.Reason != core.ReasonDeliveryRefused
	})
}

// move gives the job to the node that was found, if it is still ours to give.
func (j *journey) move(ctx context.Context, c cause, to found) bool {
	old := j.job
	if !j.apply(ctx, store.ApplyParams{
		Event: core.EventMove, Holder: j.waiting(), Owner: j.owner, Reason: c.reason,
		To: core.Holder{Attempt: to.ref.Attempt, Node: to.ref.Node, Epoch: to.epoch}, Token: to.ref.Token,
	}) {
		j.d.release(to.ref, to.member.Node, false)
		return false
	}
	j.d.letGo(old, c.certain)
	// Somebody may have moved it on already: then it is theirs to deliver.
	return j.f.moved(j.job, time.Now().Add(j.d.cfg.AttemptTimeout))
}

// waiting is whom the record names while the job is RETRYING. Its owner is the fence then, not the life of
// the last node, which may have registered again.
func (j *journey) waiting() core.Holder {
	return core.Holder{Attempt: j.job.Attempt, Node: j.job.Node}
}

// end gives the job up for good.
func (j *journey) end(ctx context.Context, c cause, reason core.Reason) {
	old := j.job
	holder := old.Holder
	if old.State == core.StateRetrying {
		holder = j.waiting()
	}
	if j.apply(ctx, store.ApplyParams{
		Event: core.EventFail, Holder: holder, Owner: j.owner, Reason: reason, Cause: c.reason, Detail: c.detail,
	}) {
		if old.State == core.StateDispatched {
			j.missed(c)
		}
		if j.d.mustTell(ctx, j.job) {
			j.d.letGo(old, c.certain)
		}
	}
}

// apply makes one step on the record, however often the store has to be asked, and keeps what the record
// then says. It reports whether the step stands; if not, the journey is over.
func (j *journey) apply(ctx context.Context, p store.ApplyParams) bool {
	p.Job, p.Seen = j.job.ID, j.job
	var applied store.Applied
	if !j.d.persist(ctx, func() (err error) {
		applied, err = j.d.store.Apply(ctx, p)
		if err == nil && applied.Outcome == store.NoJob && j.d.restore(ctx, j.job.ID) {
			applied, err = j.d.store.Apply(ctx, p)
		}
		return err
	}) {
		j.undecided = true
		if !j.d.mine(j.job) {
			j.d.flights.remove(j.job.ID) // whoever sees it through has the timer
		}
		return false
	}
	if applied.Outcome == store.NoJob {
		j.d.flights.remove(j.job.ID)
		return false
	}
	j.job = applied.Job
	switch {
	case j.job.State.Terminal():
		j.d.ended(&applied)
	case !applied.Outcome.Stands() && !j.d.mine(j.job):
		j.d.flights.remove(j.job.ID) // another instance sees it through
	}
	return applied.Outcome.Stands()
}

// letGo frees the slot of an attempt that the job has left: at once when the node said that it does not have
// the job, else when the node has let go of it. Nobody waits for it.
func (d *Dispatcher) letGo(old *core.Job, certain bool) {
	ref := leaseOf(old)
	if certain {
		d.release(ref, d.fleet.Node(old.Node), false)
		return
	}
	if err := d.store.Revoke(d.life, ref); err != nil {
		d.storeFailed("revoke", err)
		d.background(func(ctx context.Context) {
			d.persist(ctx, func() error { return d.store.Revoke(ctx, ref) })
		})
	}
	d.transport.Cancel(d.life, ref.Node, ref.Job, ref.Attempt)
}
