package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// What the scripts of records answer.
const (
	written = 1
	early   = 2
)

// tries bounds how often a step is made anew because somebody else made one first.
const tries = 16

var errContended = errors.New("others changed the record each time")

// Create implements store.Jobs.
func (s *Store) Create(ctx context.Context, p store.CreateParams) (*core.Job, bool, error) {
	job := &core.Job{
		ID: p.ID, Spec: p.Spec, Fingerprint: p.Fingerprint,
		State: core.StateDispatched, Holder: p.Holder, Token: p.Token, Version: 1,
		Created: asOf, Updated: asOf, Deadline: asOf.Add(p.Timeout),
	}
	job.BeginAttempt(asOf)
	record, err := encode(job)
	if err != nil {
		return nil, false, err
	}
	ttl := millis(p.Timeout + 2*s.timing.Presence)
	now, r, err := s.line.run(ctx, &scriptCreate, []string{s.keys.job(p.ID)}, ttl, record)
	for range tries {
		if err != nil {
			return nil, false, err
		}
		if r.int(0) == written {
			s.line.health.wrote()
			settle(job, now)
			return job, true, nil
		}
		old, seen, err := s.standing(p.ID, r)
		switch {
		case err != nil:
			return nil, false, err
		case old != nil && !old.Refused():
			return old, old.Token == p.Token && old.State == core.StateDispatched, nil
		case old == nil: // it expired just now
			now, r, err = s.line.run(ctx, &scriptCreate, []string{s.keys.job(p.ID)}, ttl, record)
		default:
			now, r, err = s.replace(ctx, p.ID, swap{ttl: ttl, seen: seen, record: record, anew: true})
		}
		if err != nil {
			return nil, false, err
		}
	}
	return nil, false, errContended
}

// standing reads the record that a script answered with, and how it begins; nil when there is none.
func (s *Store) standing(id core.JobID, r reply) (*core.Job, string, error) {
	if len(r.parts) < 2 || r.none(1) {
		return nil, "", nil
	}
	return s.read(id, r.text(1))
}

func (s *Store) read(id core.JobID, text string) (*core.Job, string, error) {
	job, err := decodeRecord(id, text)
	return job, beginning(text), err
}

// swap is one compare-and-set.
type swap struct {
	ttl       string // 0: what is left of it
	seen      string // how the record begins that is to be replaced
	record    string // the other, but for its times
	notBefore int64  // 0: whenever
	anew      bool   // as if it were created now
}

func (s *Store) replace(ctx context.Context, id core.JobID, w swap) (int64, reply, error) {
	keys, args := []string{s.keys.job(id)}, []string{w.ttl, w.seen, w.record}
	switch {
	case w.anew:
		args = append(args, "0", "1")
	case w.notBefore > 0:
		args = append(args, strconv.FormatInt(w.notBefore, 10))
	}
	return s.line.run(ctx, &scriptReplace, keys, args...)
}

// Apply implements store.Jobs. The step is worked out here, by the one function that knows the state machine, and
// written if the record is still the one it was worked out from.
func (s *Store) Apply(ctx context.Context, p store.ApplyParams) (store.Applied, error) {
	job, seen, sure, err := s.base(ctx, &p)
	for range tries {
		if err != nil {
			return store.Applied{}, err
		}
		if job == nil {
			return store.Applied{Outcome: store.NoJob}, nil
		}
		next, outcome, notBefore := step(job, &p)
		if outcome != store.Decided {
			if sure {
				return store.Applied{Outcome: outcome, Job: job}, nil
			}
			job, seen, err = s.fetch(ctx, p.Job) // what the caller had seen may be old
			sure = true
			continue
		}
		now, r, err := s.write(ctx, next, p.Suspends, notBefore, seen)
		switch {
		case err != nil:
			return store.Applied{}, err
		case r.int(0) == written:
			settle(next, now)
			if next.State.Terminal() {
				s.recent.add(next)
			}
			return store.Applied{Outcome: store.Decided, Job: next}, nil
		case r.int(0) == early:
			return store.Applied{Outcome: store.Owned, Job: job}, nil
		}
		if job, seen, err = s.standing(p.Job, r); err != nil {
			return store.Applied{}, err
		}
		sure = true
	}
	return store.Applied{}, errContended
}

// base is the record to begin from and how it begins: what the caller has seen, or else what there is, which is
// sure.
func (s *Store) base(ctx context.Context, p *store.ApplyParams) (job *core.Job, seen string, sure bool, err error) {
	if p.Seen != nil && p.Seen.ID == p.Job {
		return p.Seen, seenAs(p.Seen), false, nil
	}
	job, seen, err = s.fetch(ctx, p.Job)
	return job, seen, true, err
}

// step works a step out before the server has said what time it is. Whether a retry may be taken over yet is for
// the server to say: not before the returned moment.
func step(job *core.Job, p *store.ApplyParams) (next *core.Job, outcome store.Outcome, notBefore int64) {
	if p.Event == core.EventTakeover && job.State == core.StateRetrying && job.Owner != p.Owner {
		notBefore = job.Retry.UnixMilli()
		due := *job
		due.Retry = time.Time{}
		job = &due
	}
	next, outcome = store.Step(job, p, asOf)
	return next, outcome, notBefore
}

// write puts a record in the place of the one that begins as it was seen. A live one keeps its time; an ended one gets as
// long as a repeat may ask for it.
func (s *Store) write(ctx context.Context, next *core.Job, suspended bool, notBefore int64, seen string) (int64, reply, error) {
	record, err := encode(next)
	if err != nil {
		return 0, reply{}, err
	}
	w := swap{ttl: "0", seen: seen, record: record, notBefore: notBefore}
	switch {
	case next.State.Terminal():
		w.ttl = millis(s.timing.Retention)
	case suspended: // the record must outlive the wait for its audio
		w.ttl = millis(next.Deadline.Sub(next.Created) + 2*s.timing.Presence)
	}
	return s.replace(ctx, next.ID, w)
}

// fetch reads a record and how it begins; nil when there is none.
func (s *Store) fetch(ctx context.Context, id core.JobID) (*core.Job, string, error) {
	m, err := s.line.one(s.line.begin(ctx), s.line.redis.B().Get().Key(s.keys.job(id)).Build())
	if err != nil {
		return nil, "", fmt.Errorf("get: %w", err)
	}
	if m.IsNil() {
		return nil, "", nil
	}
	text, err := m.ToString()
	if err != nil {
		return nil, "", fmt.Errorf("get: %w", err)
	}
	return s.read(id, text)
}

// Get implements store.Jobs.
func (s *Store) Get(ctx context.Context, id core.JobID) (*core.Job, error) {
	job, _, err := s.fetch(ctx, id)
	if err == nil && job == nil {
		return nil, store.ErrNoJob
	}
	return job, err
}

// Clock implements store.Jobs.
func (s *Store) Clock(id core.JobID) time.Time {
	return time.UnixMilli(s.line.clocks.server(s.line.slot(s.keys.job(id))))
}

// fetchEach reads many records; those that are gone are left out.
func (s *Store) fetchEach(ctx context.Context, ids []core.JobID) ([]*core.Job, error) {
	var jobs []*core.Job
	for from := 0; from < len(ids); from += batch {
		some := ids[from:min(from+batch, len(ids))]
		cmds := make([]rueidis.Completed, len(some))
		for i, id := range some {
			cmds[i] = s.line.redis.B().Get().Key(s.keys.job(id)).Build()
		}
		results, err := s.line.many(s.line.begin(ctx), cmds)
		if err != nil {
			return nil, fmt.Errorf("get: %w", err)
		}
		for i, id := range some {
			text, err := results[i].ToString()
			if rueidis.IsRedisNil(err) {
				continue
			}
			if err = spoken(err); err != nil {
				return nil, fmt.Errorf("get: %w", err)
			}
			job, _, err := s.read(id, text)
			if err != nil {
				return nil, err
			}
			jobs = append(jobs, job)
		}
	}
	return jobs, nil
}
