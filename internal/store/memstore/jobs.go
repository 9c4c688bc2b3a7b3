package memstore

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// jobShard holds records. A record is replaced and never changed, so that readers may keep it.
type jobShard struct {
	run.Mutex
	records map[core.JobID]record
	live    expiryQueue
	ended   expiryQueue
}

type record struct {
	job     *core.Job
	expires moment
}

// expiry is a time at which a record may have expired. A record that was extended has a later one too.
type expiry struct {
	at  moment
	job core.JobID
}

// expiryQueue holds expiries in their order. All live records have the same TTL, and so have all ended ones, so two queues need no
// sorting.
type expiryQueue struct {
	entries []expiry
	head    int // the index of the first entry
}

func (q *expiryQueue) push(d expiry) {
	if q.head > len(q.entries)/2 {
		q.entries = append(q.entries[:0], q.entries[q.head:]...)
		q.head = 0
	}
	q.entries = append(q.entries, d)
}

// pop removes the first entry of the queue if its time has come.
func (q *expiryQueue) pop(now moment) (core.JobID, bool) {
	if q.head == len(q.entries) || !expired(q.entries[q.head].at, now) {
		return "", false
	}
	id := q.entries[q.head].job
	q.entries[q.head].job = ""
	q.head++
	return id, true
}

// put stores a record and queues its expiry.
func (sh *jobShard) put(job *core.Job, expires moment) {
	sh.records[job.ID] = record{job: job, expires: expires}
	if job.State.Terminal() {
		sh.ended.push(expiry{at: expires, job: job.ID})
	} else {
		sh.live.push(expiry{at: expires, job: job.ID})
	}
}

// sweep drops expired records, a few at a time: each new record pays for two old ones.
func (sh *jobShard) sweep(now moment) {
	for _, q := range []*expiryQueue{&sh.live, &sh.ended} {
		for range 2 {
			id, ok := q.pop(now)
			if !ok {
				break
			}
			if r, known := sh.records[id]; known && expired(r.expires, now) {
				delete(sh.records, id)
			}
		}
	}
}

func (sh *jobShard) get(id core.JobID, now moment) *core.Job {
	if r, ok := sh.records[id]; ok && !expired(r.expires, now) {
		return r.job
	}
	return nil
}

// recordExpiry returns until when a record is kept: an ended one for the retention, a live one for two presence TTLs after its
// deadline, so that an instance that finds its lease also finds the record.
func (s *Store) recordExpiry(job *core.Job, now moment) moment {
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
	shard.put(job, s.recordExpiry(job, now))
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
	next, outcome := store.Transition(job, &p, s.time(now))
	switch {
	case outcome != store.Decided:
	case next.State.Terminal():
		shard.put(next, s.recordExpiry(next, now))
	default:
		shard.records[p.Job] = record{job: next, expires: s.recordExpiry(next, now)}
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

// List implements store.Jobs.
func (s *Store) List(_ context.Context, p store.ListParams) ([]*core.Job, error) {
	var found []*core.Job
	now := s.now()
	for i := range s.jobs {
		shard := &s.jobs[i]
		shard.Lock()
		for _, r := range shard.records {
			if !expired(r.expires, now) && p.Selects(r.job) {
				found = append(found, r.job)
			}
		}
		shard.Unlock()
	}
	return p.Page(found), nil
}
