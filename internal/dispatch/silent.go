package dispatch

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// A node that acknowledges jobs and then says nothing takes jobs until all its slots are full, and each of them waits for the whole attempt
// timeout. So a node is set aside while several of its jobs have been running for much longer than jobs usually do, without a partial
// result. Being set aside is a preference: if no other node can take a job, this one gets it.
const (
	silentJobs     = 2                      // number of silent jobs that set a node aside
	silentFactor   = 3                      // a job is silent after so many times the duration that 95 % of the jobs do not exceed …
	silentAtLeast  = time.Second            // … and not before this
	silentInterval = 250 * time.Millisecond // between two checks
	silentFor      = time.Second            // how long a node is set aside after each check that found it silent
)

// durations estimates the duration that 95 % of the jobs do not exceed. Each job moves the estimate a little: up if it took longer, down
// otherwise, in such a ratio that both balance when 5 % of the jobs take longer.
type durations struct{ p95 atomic.Uint64 } // seconds, float64 bits; 0: no job has ended yet

const (
	durationQuantile = 0.95
	durationStep     = 0.1
)

// observe records the duration of a job. Of two concurrent updates one may be lost, which does no harm.
func (d *durations) observe(took time.Duration) {
	seconds, p95 := max(took.Seconds(), 1e-3), math.Float64frombits(d.p95.Load())
	switch {
	case p95 == 0:
		p95 = seconds
	case seconds > p95:
		p95 = min(seconds, p95*(1+durationStep*durationQuantile))
	default:
		p95 = max(seconds, p95*(1-durationStep*(1-durationQuantile)))
	}
	d.p95.Store(math.Float64bits(p95))
}

// silentAfter is after what time without a message a job counts as silent. Until a job has ended, none does.
func (d *durations) silentAfter() time.Duration {
	p95 := math.Float64frombits(d.p95.Load())
	if p95 == 0 {
		return math.MaxInt64
	}
	return max(silentAtLeast, time.Duration(silentFactor*p95*float64(time.Second)))
}

// watchSilent sets nodes aside that do not acknowledge jobs or hold silent jobs of this instance, until the context ends.
func (r *runner) watchSilent(ctx context.Context) {
	for run.Sleep(ctx, silentInterval) {
		r.setSilentAside(time.Now())
		if r.cfg.MissedACKs != nil {
			r.cfg.MissedACKs(func(m MissedACK) {
				if !r.wasAnswered(&m) {
					r.blame(m.Node, m.Direction, core.ReasonACKTimeout)
				}
			})
		}
	}
}

// MissedACK is an attempt that was sent to a node over a connection, and of which the node has said nothing over it.
type MissedACK struct {
	Job       core.JobID
	Node      core.NodeID
	Attempt   int
	Direction core.Direction
}

// wasAnswered reports whether the node of an attempt may have acknowledged it all the same: a node with a connection may send its reports
// over HTTP, to any instance. While the store was unavailable, or was so recently, nothing is asked, because nothing counts.
func (r *runner) wasAnswered(m *MissedACK) bool {
	if r.store.SinceError() < r.cfg.AttemptTimeout {
		return true
	}
	ctx := r.decide.Context()
	job, err := r.store.Get(ctx, m.Job)
	if err != nil {
		if !errors.Is(err, store.ErrNoJob) {
			r.store.RecordError("get", err)
		}
		return true
	}
	i := slices.IndexFunc(job.History, func(a core.Attempt) bool { return a.Attempt == m.Attempt && a.Node == m.Node })
	if i < 0 {
		return true
	}
	if past := &job.History[i]; !past.Ended.IsZero() {
		return !isMissedACK(past.Reason)
	}
	acknowledged, _ := r.acknowledged(ctx, job)
	return acknowledged
}

// setSilentAside sets nodes aside that hold several silent jobs.
func (r *runner) setSilentAside(now time.Time) {
	after := r.durations.silentAfter()
	silent := make(map[core.NodeID]int)
	r.inFlight.each(func(f *inFlightJob) {
		if node, since := f.silence(now); since > after {
			silent[node]++
		}
	})
	for id, jobs := range silent {
		if n := r.fleet.Node(id); n != nil && jobs >= silentJobs {
			n.SetAside(r.fleet.Now() + fleet.Instant(silentFor))
		}
	}
}

// silence returns for how long the node of a running job has said nothing about it; 0 if the job is not running.
func (f *inFlightJob) silence(now time.Time) (core.NodeID, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || f.phase != phaseRunning || f.job.TestJob {
		return "", 0
	}
	return f.job.Node, now.Sub(f.heard)
}

// recordHeard records that the node of a running job has sent something about it.
func (f *inFlightJob) recordHeard(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = now
}

// RecordPartial records that the node of an attempt has sent a partial result of it: the node is not silent.
func (d *Dispatcher) RecordPartial(id core.JobID, attempt int) {
	if f := d.inFlight.get(id); f != nil && f.record().Attempt == attempt {
		f.recordHeard(time.Now())
	}
}
