package dispatch

import (
	"hash/maphash"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/tracing"
)

// phase is what an in-flight job waits for.
type phase uint8

const (
	phasePlacing phase = iota // a jobRun selects a node or delivers
	phaseACK                  // the node's ACK
	phaseRunning              // the node's result
)

// inFlightJob is a job that this instance runs: its record as it was last read, and the timer of the current phase. Its lock
// is never held during a call to the store or a node.
type inFlightJob struct {
	id       core.JobID
	deadline time.Time      // of the job, by this process's clock
	trace    *tracing.Trace // nil: tracing is off

	mu          run.Mutex
	job         *core.Job
	attemptEnds time.Time // by this process's clock
	waitEnds    time.Time // of the current phase
	heard       time.Time // in phaseRunning: when the node last sent something about the job
	timer       *time.Timer
	phase       phase
	selecting   bool // a jobRun selects another node
	ended       bool
	// on which the job counts as one of this instance; nil: on none, because it was reserved by another or selects a node
	node  *fleet.Node
	watch *testJob // nil: no caller waits for the end
}

// record returns the job's record as it was last read.
func (f *inFlightJob) record() *core.Job {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.job
}

// arm sets the timer for a phase of the attempt that token names, and does nothing if the job has moved on. The timer fires
// at the given time, or with the end of the attempt or the job if that is earlier.
func (f *inFlightJob) arm(token core.Token, p phase, until time.Time, onTimer func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || f.selecting || f.job.Token != token || p == phaseACK && f.phase == phaseRunning {
		return
	}
	if p == phaseRunning && f.phase != phaseRunning {
		f.heard = time.Now()
		f.watch.acknowledged(f.heard)
	}
	f.phase = p
	if until.IsZero() || until.After(f.attemptEnds) {
		until = f.attemptEnds
	}
	if until.After(f.deadline) {
		until = f.deadline
	}
	f.waitEnds = until
	timeout := time.Until(until)
	if f.timer == nil {
		f.timer = time.AfterFunc(timeout, onTimer)
	} else {
		f.timer.Reset(timeout)
	}
}

// setNode makes the job count on the node on which this instance has reserved its slot.
func (f *inFlightJob) setNode(n *fleet.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaveNode()
	if f.node = n; f.ended {
		f.leaveNode()
	}
}

// leaveNode ends the count of the job on its node, if it is counted on one. The lock is held.
func (f *inFlightJob) leaveNode() {
	if f.node != nil {
		f.node.EndJob()
		f.node = nil
	}
}

// setMoved stores the record of a job that has a new holder, and the holder's node, on which its slot was reserved. It returns false, and
// stores nothing, if the job has moved on since.
func (f *inFlightJob) setMoved(job *core.Job, n *fleet.Node, attemptEnds time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || f.job.Version > job.Version {
		n.EndJob()
		return false
	}
	f.leaveNode()
	f.node = n
	f.job, f.attemptEnds, f.phase, f.selecting = job, attemptEnds, phasePlacing, false
	if f.timer != nil {
		f.timer.Stop()
	}
	return true
}

// beginSelection stores the record of a job for which the caller selects another node. It returns false if the job has
// ended here.
func (f *inFlightJob) beginSelection(job *core.Job) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return false
	}
	f.leaveNode()
	f.job, f.phase, f.selecting = job, phasePlacing, true
	if f.timer != nil {
		f.timer.Stop()
	}
	return true
}

// setRebound stores the record of a job whose node has registered again.
func (f *inFlightJob) setRebound(job *core.Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.job.Token == job.Token {
		f.job = job
	}
}

// end marks the job as ended here and stops its timer.
func (f *inFlightJob) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.leaveNode()
	f.watch.end()
	if f.timer != nil {
		f.timer.Stop()
	}
}

const inFlightShards = 64

// inFlightTable holds the in-flight jobs of this instance.
type inFlightTable struct {
	seed   maphash.Seed
	shards [inFlightShards]inFlightShard

	mu    run.Mutex
	count int
	empty chan struct{} // closed when the count falls to zero; nil while no caller waits for that
}

type inFlightShard struct {
	run.Mutex
	jobs map[core.JobID]*inFlightJob
}

func newInFlightTable() *inFlightTable {
	t := &inFlightTable{seed: maphash.MakeSeed(), mu: run.NewMutex("dispatch_count")}
	for i := range t.shards {
		t.shards[i].Mutex = run.NewMutex("dispatch_shard")
		t.shards[i].jobs = make(map[core.JobID]*inFlightJob)
	}
	return t
}

func (t *inFlightTable) shard(id core.JobID) *inFlightShard {
	return &t.shards[maphash.String(t.seed, string(id))%inFlightShards]
}

func (t *inFlightTable) get(id core.JobID) *inFlightJob {
	s := t.shard(id)
	s.Lock()
	defer s.Unlock()
	return s.jobs[id]
}

// record returns a job's record as it was last read here; nil if the job is not in flight here.
func (t *inFlightTable) record(id core.JobID) *core.Job {
	if f := t.get(id); f != nil {
		return f.record()
	}
	return nil
}

// add adds a job and returns its entry, or the entry that the job has.
func (t *inFlightTable) add(f *inFlightJob) *inFlightJob {
	s := t.shard(f.id)
	s.Lock()
	defer s.Unlock()
	if old := s.jobs[f.id]; old != nil {
		return old
	}
	f.mu = run.NewMutex("dispatch_job")
	s.jobs[f.id] = f
	t.increment()
	return f
}

// remove removes a job and stops its timer.
func (t *inFlightTable) remove(id core.JobID) {
	s := t.shard(id)
	s.Lock()
	f := s.jobs[id]
	delete(s.jobs, id)
	s.Unlock()
	if f == nil {
		return
	}
	f.end()
	t.decrement()
}

// removeUnlessContinued removes a job unless a jobRun continues it, or has continued it since the given record.
func (t *inFlightTable) removeUnlessContinued(job *core.Job) {
	f := t.get(job.ID)
	if f == nil {
		return
	}
	f.mu.Lock()
	continued := f.selecting && f.job.Version >= job.Version || f.job.Version > job.Version
	f.mu.Unlock()
	if !continued {
		t.remove(job.ID)
	}
}

// increment counts a job that is in the table or about to be added, so that the table is not taken for empty meanwhile.
func (t *inFlightTable) increment() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
}

// decrement reverts increment.
func (t *inFlightTable) decrement() {
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

// whenEmpty returns a channel that is closed when the count next falls to zero.
func (t *inFlightTable) whenEmpty() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.empty == nil {
		t.empty = make(chan struct{})
	}
	return t.empty
}

// each calls fn with every job, without holding a lock of the table.
func (t *inFlightTable) each(fn func(*inFlightJob)) {
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		all := make([]*inFlightJob, 0, len(s.jobs))
		for _, f := range s.jobs {
			all = append(all, f)
		}
		s.Unlock()
		for _, f := range all {
			fn(f)
		}
	}
}

// stopTimers stops every timer for good. The jobs stay in the table.
func (t *inFlightTable) stopTimers() { t.each((*inFlightJob).end) }

func (t *inFlightTable) countByDirection() map[core.Direction]int {
	counts := make(map[core.Direction]int)
	t.each(func(f *inFlightJob) {
		if job := f.record(); !job.TestJob {
			counts[job.Direction]++
		}
	})
	return counts
}
