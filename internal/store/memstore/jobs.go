package memstore

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// jobShard holds records. A record is replaced, never changed, so that a reader may keep what it got.
type jobShard struct {
	sync.Mutex
	m   map[core.JobID]*record
	due dueHeap
}

type record struct {
	job     *core.Job
	expires moment
}

// due is a moment at which a record may have to go. A record that was prolonged has a later one too.
type due struct {
	at moment
	id core.JobID
}

type dueHeap []due

// The methods of heap.Interface.

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *dueHeap) Push(x any) { *h = append(*h, x.(due)) }

// Pop implements heap.Interface.
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	*h = (*h)[:last]
	return d
}

// put stores a record and notes when it may go.
func (sh *jobShard) put(job *core.Job, expires moment) {
	sh.m[job.ID] = &record{job: job, expires: expires}
	heap.Push(&sh.due, due{at: expires, id: job.ID})
}

// sweep drops what has expired, a few at a time: each new record pays for two old ones.
func (sh *jobShard) sweep(now moment) {
	for range 2 {
		if len(sh.due) == 0 || !expired(sh.due[0].at, now) {
			return
		}
		d := heap.Pop(&sh.due).(due)
		if r := sh.m[d.id]; r != nil && expired(r.expires, now) {
			delete(sh.m, d.id)
		}
	}
}

func (sh *jobShard) get(id core.JobID, now moment) *core.Job {
	if r := sh.m[id]; r != nil && !expired(r.expires, now) {
		return r.job
	}
	return nil
}

// lifetime is how long a record is kept: an ended one for as long as a repeat may ask for it, a live one
// past its deadline by long enough that whoever finds its lease also finds it.
func (s *Store) lifetime(job *core.Job, now moment) moment {
	if job.State.Terminal() {
		return now.add(s.timing.Keep)
	}
	return moment(job.Deadline.Sub(s.base)).add(2 * s.timing.Presence)
}

// Create implements store.Jobs.
func (s *Store) Create(ctx context.Context, p store.CreateParams) (core.Job, bool, error) {
	shard := &s.jobs[s.shardOf(string(p.ID))]
	shard.Lock()
	defer shard.Unlock()
	if err := ctx.Err(); err != nil {
		return core.Job{}, false, err
	}
	now := s.now()
	if job := shard.get(p.ID, now); job != nil && !job.Refused() {
		return *job, job.Token == p.Token && job.State == core.StateDispatched, nil
	}
	at := s.time(now)
	job := &core.Job{
		ID: p.ID, Spec: p.Spec, Fingerprint: p.Print,
		State: core.StateDispatched, Holder: p.Holder, Token: p.Token,
		Created: at, Updated: at, Deadline: at.Add(p.Timeout),
	}
	job.Begin(at)
	shard.sweep(now)
	shard.put(job, s.lifetime(job, now))
	return *job, true, nil
}

// Apply implements store.Jobs.
func (s *Store) Apply(ctx context.Context, p store.ApplyParams) (store.Applied, error) {
	shard := &s.jobs[s.shardOf(string(p.Job))]
	shard.Lock()
	defer shard.Unlock()
	if err := ctx.Err(); err != nil {
		return store.Applied{}, err
	}
	now := s.now()
	job := shard.get(p.Job, now)
	if job == nil {
		return store.Applied{Outcome: store.NoJob}, nil
	}
	next, outcome := store.Step(job, &p, s.time(now))
	if outcome != store.Decided {
		return store.Applied{Outcome: outcome, Job: *job}, nil
	}
	expires := s.lifetime(&next, now)
	if next.State.Terminal() {
		shard.put(&next, expires)
	} else {
		shard.m[p.Job].job = &next
	}
	return store.Applied{Outcome: outcome, Job: next, Before: *job}, nil
}

// Get implements store.Jobs.
func (s *Store) Get(_ context.Context, id core.JobID) (core.Job, error) {
	shard := &s.jobs[s.shardOf(string(id))]
	shard.Lock()
	defer shard.Unlock()
	if job := shard.get(id, s.now()); job != nil {
		return *job, nil
	}
	return core.Job{}, store.ErrNoJob
}

// List implements store.Jobs.
func (s *Store) List(_ context.Context, p store.ListParams) ([]core.Job, error) {
	var found []*core.Job
	now := s.now()
	for i := range s.jobs {
		shard := &s.jobs[i]
		shard.Lock()
		for _, r := range shard.m {
			if !expired(r.expires, now) && p.Selects(r.job) {
				found = append(found, r.job)
			}
		}
		shard.Unlock()
	}
	slices.SortFunc(found, func(a, b *core.Job) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
	})
	if p.Limit > 0 && len(found) > p.Limit {
		found = found[:p.Limit]
	}
	jobs := make([]core.Job, len(found))
	for i, job := range found {
		jobs[i] = *job
	}
	return jobs, nil
}
