package dispatch

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// phase is what a flight is waiting for.
type phase uint8

const (
	phaseMoving  phase = iota // somebody is looking for a node or delivering
	phaseACK                  // the node's confirmation
	phaseRunning              // the node's result
)

// flight is a job this instance sees through: the record as it was last seen, and the timer of whatever is
// due next. Its lock is never held while the store or a node is asked.
type inFlightJob struct {
	id       core.JobID
	deadline time.Time // of the job, by this process's clock

	mu    sync.Mutex
	job   *core.Job
	ends  time.Time // of the current attempt, by this process's clock
	until time.Time // when the current wait is over
	phase phase
	timer *time.Timer
	seeks bool // somebody looks for another node
	over  bool
}

// snapshot returns the record as it was last seen.
func (f *inFlightJob) snapshot() *core.Job {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.job
}

// seen is a job's record as it was last seen here; nil when it was not.
func (d *Dispatcher) seen(id core.JobID) *core.Job {
	if f := d.flights.get(id); f != nil {
		return f.snapshot()
	}
	return nil
}

// leaseOf names the lease of the current attempt.
func leaseOf(job *core.Job) core.LeaseRef {
	return core.LeaseRef{Node: job.Node, Job: job.ID, Attempt: job.Attempt, Token: job.Token}
}

// wait sets the timer for a phase of the attempt that token names; nothing happens if the job has moved on.
// The wait is over at the given moment, or else with the attempt, or with the job.
func (f *inFlightJob) wait(token core.Token, p phase, until time.Time, due func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over || f.seeks || f.job.Token != token || p == phaseACK && f.phase == phaseRunning {
		return
	}
	f.phase = p
	if until.IsZero() || until.After(f.ends) {
		until = f.ends
	}
	if until.After(f.deadline) {
		until = f.deadline
	}
	f.until = until
	timeout := time.Until(until)
	if f.timer == nil {
		f.timer = time.AfterFunc(timeout, due)
	} else {
		f.timer.Reset(timeout)
	}
}

// moved notes that the job has another holder. It reports false, and notes nothing, when the job has moved
// on since.
func (f *inFlightJob) moved(job *core.Job, ends time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over || f.job.Version > job.Version {
		return false
	}
	f.job, f.ends, f.phase, f.seeks = job, ends, phaseMoving, false
	if f.timer != nil {
		f.timer.Stop()
	}
	return true
}

// seek claims the flight for whoever looks for another node. It reports false when somebody else does.
func (f *inFlightJob) seek(job *core.Job) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return false
	}
	f.job, f.phase, f.seeks = job, phaseMoving, true
	if f.timer != nil {
		f.timer.Stop()
	}
	return true
}

// rebound notes that the job's node is in another life.
func (f *inFlightJob) rebound(job *core.Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.job.Token == job.Token {
		f.job = job
	}
}

const flightShards = 64

// flights is the table of jobs this instance sees through.
type inFlightTable struct {
	seed   maphash.Seed
	shards [flightShards]flightShard

	mu    sync.Mutex
	count int
	empty chan struct{} // if somebody waits: closed when the count falls to zero
}

type flightShard struct {
	sync.Mutex
	m map[core.JobID]*inFlightJob
}

func (t *inFlightTable) init() {
	t.seed = maphash.MakeSeed()
	for i := range t.shards {
		t.shards[i].m = make(map[core.JobID]*inFlightJob)
	}
}

func (t *inFlightTable) shard(id core.JobID) *flightShard {
	return &t.shards[maphash.String(t.seed, string(id))%flightShards]
}

func (t *inFlightTable) get(id core.JobID) *inFlightJob {
	s := t.shard(id)
	s.Lock()
	defer s.Unlock()
	return s.m[id]
}

// add puts a flight into the table and returns it, or the one that is there for the job.
func (t *inFlightTable) add(f *inFlightJob) *inFlightJob {
	s := t.shard(f.id)
	s.Lock()
	defer s.Unlock()
	if old := s.m[f.id]; old != nil {
		return old
	}
	s.m[f.id] = f
	t.enter()
	return f
}

// remove ends a flight.
func (t *inFlightTable) remove(id core.JobID) {
	s := t.shard(id)
	s.Lock()
	f := s.m[id]
	delete(s.m, id)
	s.Unlock()
	if f == nil {
		return
	}
	f.mu.Lock()
	f.over = true
	if f.timer != nil {
		f.timer.Stop()
	}
	f.mu.Unlock()

	t.leave()
}

// relinquish ends a flight unless somebody has taken its job on since the record was as given.
func (t *inFlightTable) relinquish(job *core.Job) {
	f := t.get(job.ID)
	if f == nil {
		return
	}
	f.mu.Lock()
	claimed := f.seeks && f.job.Version >= job.Version || f.job.Version > job.Version
	f.mu.Unlock()
	if !claimed {
		t.remove(job.ID)
	}
}

// enter counts somebody who is about to add a flight, so that nobody takes the table for empty meanwhile;
// leave takes it back.
func (t *inFlightTable) enter() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
}

func (t *inFlightTable) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count--
	if t.count == 0 && t.empty != nil {
		close(t.empty)
		t.empty = nil
	}
}

func (t *inFlightTable) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// emptied is closed when the last flight ends.
func (t *inFlightTable) emptied() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.empty == nil {
		t.empty = make(chan struct{})
	}
	return t.empty
}

// each calls fn with every flight.
func (t *inFlightTable) each(fn func(*inFlightJob)) {
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		all := make([]*inFlightJob, 0, len(s.m))
		for _, f := range s.m {
			all = append(all, f)
		}
		s.Unlock()
		for _, f := range all {
			fn(f)
		}
	}
}

// stop stops every timer for good.
func (t *inFlightTable) stop() {
	t.each(func(f *inFlightJob) {
		f.mu.Lock()
		f.over = true
		if f.timer != nil {
			f.timer.Stop()
		}
		f.mu.Unlock()
	})
}

func (t *inFlightTable) byDirection() map[core.Direction]int {
	counts := make(map[core.Direction]int)
	t.each(func(f *inFlightJob) {
		counts[f.snapshot().Direction]++
	})
	return counts
}
