package dispatch

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// A test job is a job with a synthetic utterance that goes to this node or to none. It takes the path of every job, so that it keeps
// the same promises: a slot is reserved for it, its record decides its outcome once, and whatever dies on its way, it fails at its deadline
// and its slot becomes free. It is not to be confused with the reads of how full nodes are, which a prober makes.

const (
	// maxTestJobs is how many test jobs an instance runs at once.
	maxTestJobs = 32
	// testJobPoll is how often the record of a test job is read while it runs: another instance may receive the acknowledgement and the
	// result.
	testJobPoll = 100 * time.Millisecond
	// testJobGrace is how long after the deadline of a test job its end is waited for.
	testJobGrace = 3 * time.Second
)

// TestJobParams describes a test job.
type TestJobParams struct {
	Node      core.NodeID
	Tenant    core.TenantID // of the node
	Direction core.Direction
	Timeout   time.Duration // the time of an attempt is the limit, if that is shorter
}

// TestJobOutcome is how a test job ended. Times of stages that it did not reach are zero.
type TestJobOutcome struct {
	Job                                        *core.Job
	Started, Recorded, Delivered, Acknowledged time.Time
	Ended                                      time.Time
}

// testJob is what the caller of a test job learns of it. A nil one learns nothing.
type testJob struct {
	timeout             time.Duration
	recorded, delivered time.Time     // set before the caller waits
	acked               atomic.Int64  // Unix nanoseconds; 0: not yet
	ended               chan struct{} // closed when the job is not in flight here any more
	endOnce             sync.Once
}

func newTestJob(timeout time.Duration) *testJob {
	return &testJob{timeout: timeout, ended: make(chan struct{})}
}

// acknowledged records the first acknowledgement.
func (w *testJob) acknowledged(at time.Time) {
	if w != nil {
		w.acked.CompareAndSwap(0, at.UnixNano())
	}
}

func (w *testJob) end() {
	if w != nil {
		w.endOnce.Do(func() { close(w.ended) })
	}
}

// watchBy makes a watch learn of the job, which was recorded just now. The watch may be nil.
func (f *inFlightJob) watchBy(w *testJob) {
	if w == nil {
		return
	}
	w.recorded = time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watch = w; f.ended {
		w.end()
	}
}

// RunTestJob sends a synthetic utterance through a node and waits for its end. If the caller leaves, the job goes on, and ends at its
// deadline at the latest. The error, if any, is a *wire.Error: the node was not probed, or the outcome is not known.
func (d *Dispatcher) RunTestJob(ctx context.Context, p *TestJobParams) (*TestJobOutcome, error) {
	if d.probes.Add(1) > maxTestJobs {
		d.probes.Add(-1)
		return nil, wire.Errorf(wire.RateLimited, "this instance makes %d probes already: wait for one to end",
			maxTestJobs).RetryIn(time.Second)
	}
	defer d.probes.Add(-1)
	name := "probe-" + rand.Text()
	t := newTestJob(min(p.Timeout, d.cfg.AttemptTimeout, d.cfg.JobTimeout))
	r := Request{Spec: core.Spec{
		Request: core.RequestID(name), Session: core.SessionID(name), Tenant: p.Tenant, Direction: p.Direction, TestJob: true,
		Options: core.Options{PreferredNodeID: new(string(p.Node)), Strict: true},
	}, Unique: true, test: t}
	c := &call{Request: r, ctx: ctx, id: r.Job(), fingerprint: r.Fingerprint()}
	d.beginTrace(c)
	out := &TestJobOutcome{Started: time.Now()}
	placed, refusal := d.try(c, "")
	if refusal != nil {
		d.metrics.CountRefusedProbe()
		return nil, refusal
	}
	out.Recorded, out.Delivered = t.recorded, t.delivered
	job, err := d.runner.awaitTestJob(ctx, placed.Job, t, out.Recorded.Add(t.timeout+testJobGrace))
	if err != nil {
		return nil, err
	}
	out.Job = job
	if acked := t.acked.Load(); acked != 0 {
		out.Acknowledged = time.Unix(0, acked)
	}
	// Both times are on the clock of the store, so that the difference is exact however late this instance learnt of the end.
	out.Ended = out.Recorded.Add(max(0, job.Updated.Sub(job.Created)))
	return out, nil
}

// awaitTestJob waits until a test job has ended, on whichever instance.
func (r *runner) awaitTestJob(ctx context.Context, id core.JobID, w *testJob, until time.Time) (*core.Job, error) {
	ended, poll := w.ended, time.NewTicker(testJobPoll)
	defer poll.Stop()
	limit := time.NewTimer(time.Until(until))
	defer limit.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, store.CallError(ctx)
		case <-r.tasks.Context().Done():
			return nil, wire.Errorf(wire.SchedulerDependencyDown, "this instance stops: GET /v1/jobs/%s of another one has the outcome", id)
		case <-limit.C:
			return nil, wire.Errorf(wire.DeadlineExceeded, "the end of the probe is not known: see GET /v1/jobs/%s", id)
		case <-ended:
			ended = nil // the record says how, or that another instance goes on with it
		case <-poll.C:
		}
		job, err := r.store.Get(ctx, id)
		switch {
		case err == nil && job.State.Terminal():
			return job, nil
		case err != nil && !errors.Is(err, store.ErrNoJob):
			r.store.RecordError("get", err)
		case err == nil && w.acked.Load() == 0:
			if leases, err := r.store.Leases(ctx, leaseOf(job)); err == nil && leases[0].State == core.LeaseRunning {
				w.acknowledged(time.Now())
			}
		}
	}
}

// selectForTestJob reserves a slot of the node of a test job. What the scheduler has decided about the node does not matter: that it is
// drained, ejected or set aside, and the limits on its load. What it says about itself does.
func (s *selector) selectForTestJob(ctx context.Context, r *slotRequest) finding {
	id := r.spec.Options.Preferred()
	n := s.fleet.Node(id)
	if n == nil {
		status, err := store.ReadNode(ctx, s.store, id)
		switch {
		case errors.Is(err, store.ErrNoNode):
			return finding{refusal: wire.FieldErrorf(wire.NotFound, "node_id", "no node %s is registered", id)}
		case err != nil:
			s.store.RecordError("node", err)
			return finding{refusal: store.Unavailable()}
		}
		s.fleet.Update(status) // this instance may have started just now
		if n = s.fleet.Node(id); n == nil {
			return finding{refusal: refuseTestJob(id, core.ReasonStale)}
		}
	}
	route := core.NewRequirement(r.spec.Direction, r.spec.Options.RequireTTS)
	q := pick.Query{Requirement: &route, Options: &r.spec.Options, Tenant: r.spec.Tenant, Now: s.fleet.Now()}
	if reason := s.filter(r, &q, n); reason != core.ReasonNone {
		return finding{refusal: refuseTestJob(id, reason)}
	}
	res, verdict, err := s.reserve(ctx, &search{request: r}, &q, fleet.MemberOf(n))
	switch {
	case err != nil:
		return finding{refusal: store.Unavailable()}
	case verdict == store.UnknownNode:
		return finding{refusal: wire.FieldErrorf(wire.NotFound, "node_id", "no node %s is registered", id)}
	case verdict != store.OK:
		return finding{refusal: refuseTestJob(id, reasonOf(verdict))}
	}
	s.remember(r, &res, []core.Candidate{{Node: id}}, nil)
	return finding{reservation: res, ok: true}
}

// filter returns why a node is not given a job; ReasonNone: it is.
func (s *selector) filter(r *slotRequest, q *pick.Query, n *fleet.Node) core.Reason {
	if !r.spec.TestJob {
		return s.picker.Filter(q, n)
	}
	declared := n.Declared()
	switch {
	case declared.Health != core.HealthReady:
		return core.ReasonNotReady
	case declared.Disconnected:
		return core.ReasonDisconnected
	case !declared.Reachable():
		return core.ReasonUnreachable
	}
	return q.Requirement.Mismatch(&declared.Capability)
}

// refuseTestJob is the answer if a node cannot take a test job.
func refuseTestJob(id core.NodeID, reason core.Reason) *wire.Error {
	e := wire.FieldErrorf(wire.AllCandidatesFullOrFailed, "node_id", "node %s cannot be probed now (%s)", id, reason).RetryIn(time.Second)
	if reason.Incapable() {
		e = wire.FieldErrorf(wire.PreferredNodeNotCapable, "node_id", "node %s does not serve this direction (%s)", id, reason)
	}
	e.Reasons = map[string]int{string(reason): 1}
	return e
}
