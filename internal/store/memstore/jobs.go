package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// jobShard holds records. A record is replaced, never changed, so that a reader may keep what it got.
type jobShard struct {
	sync.Mutex
	m     map[core.JobID]record
	live  dues
	ended dues
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

// dues are moments in the order in which they come. All live records are given the same time, and so are all
// ended ones, so two queues need no sorting.
type dues struct {
	list []due
	gone int // that many at the front are done with
}

func (q *dues) push(d due) {
	if q.gone > len(q.list)/2 {
		q.list = append(q.list[:0], q.list[q.gone:]...)
		q.gone = 0
	}
	q.list = append(q.list, d)
}

// pop takes the first moment off the queue if it has come.
func (q *dues) pop(now moment) (core.JobID, bool) {
	if q.gone == len(q.list) || !expired(q.list[q.gone].at, now) {
		return "", false
	}
	id := q.list[q.gone].id
	q.list[q.gone].id = ""
	q.gone++
	return id, true
}

// put stores a record and notes when it may go.
func (sh *jobShard) put(job *core.Job, expires moment) {
	sh.m[job.ID] = record{job: job, expires: expires}
	if job.State.Terminal() {
		sh.ended.push(due{at: expires, id: job.ID})
	} else {
		sh.live.push(due{at: expires, id: job.ID})
	}
}

// sweep drops what has expired, a few at a time: each new record pays for two old ones.
func (sh *jobShard) sweep(now moment) {
	for _, q := range []*dues{&sh.live, &sh.ended} {
		for range 2 {
			id, ok := q.pop(now)
			if !ok {
				break
			}
			if r, known := sh.m[id]; known && expired(r.expires, now) {
				delete(sh.m, id)
			}
		}
	}
}

func (sh *jobShard) get(id core.JobID, now moment) *core.Job {
	if r, ok := sh.m[id]; ok && !expired(r.expires, now) {
		return r.job
	}
	return nil
}

// lifetime is how long a record is kept: an ended one for as long as a repeat may ask for it, a live one
// past its deadline by long enough that whoever finds its lease also finds it.
func (s *Store) lifetime(job *core.Job, now moment) moment {
	if job.State.Terminal() {
		return now.add(s.timing.Retention)
	}
	return moment(job.ExpiresAt().Sub(s.base)).add(2 * s.timing.Presence)
}

// Create implements store.Jobs.
func (s *Store) Create(ctx context.Context, p store.CreateParams) (*core.Job, bool, error) {
	shard := &s.jobs[s.shardOf(string(p.ID))]
	shard.Lock()
	defer shard.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	now := s.now()
	if job := shard.get(p.ID, now); job != nil && !job.Refused() {
		return job, job.Token == p.Token && job.State == core.StateDispatched, nil
	}
	at := s.time(now)
	job := &core.Job{
		ID: p.ID, Spec: p.Spec, Fingerprint: p.Fingerprint,
		State: core.StateDispatched, Holder: p.Holder, Token: p.Token, Version: 1,
		Created: at, Updated: at, Deadline: at.Add(p.Timeout),
	}
	job.BeginAttempt(at)
	shard.sweep(now)
	shard.put(job, s.lifetime(job, now))
	return job, true, nil
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
	switch {
	case outcome != store.Decided:
	case next.State.Terminal():
		shard.put(next, s.lifetime(next, now))
	default:
		shard.m[p.Job] = record{job: next, expires: s.lifetime(next, now)}
	}
	return store.Applied{Outcome: outcome, Job: next}, nil
}

// Get implements store.Jobs.
func (s *Store) Get(_ context.Context, id core.JobID) (*core.Job, error) {
	shard := &s.jobs[s.shardOf(string(id))]
	shard.Lock()
	defer shard.Unlock()
	if job := shard.get(id, s.now()); job != nil {
		return job, nil
	}
	return nil, store.ErrNoJob
}

// Clock implements store.Jobs.
func (s *Store) Clock(core.JobID) time.Time { return s.time(s.now()) }

// List implements store.Jobs.
func (s *Store) List(_ context.Context, p store.ListParams) ([]*core.Job, error) {
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
	return p.Page(found), nil
}
