package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// maxTries bounds how often a write is tried again because another caller changed the record first.
const maxTries = 16

var errContended = errors.New("the record was changed concurrently each time")

// Create implements store.Jobs.
func (s *Store) Create(ctx context.Context, p store.CreateParams) (*core.Job, bool, error) {
	job := &core.Job{
		ID: p.ID, Spec: p.Spec, Fingerprint: p.Fingerprint,
		State: core.StateDispatched, Holder: p.Holder, Token: p.Token, Version: 1,
		Created: unresolvedNow, Updated: unresolvedNow, Deadline: unresolvedNow.Add(p.Timeout),
	}
	job.BeginAttempt(unresolvedNow)
	record, err := encode(job)
	if err != nil {
		return nil, false, err
	}
	ttl := millis(p.Timeout + 2*s.timing.Presence)
	now, r, err := s.client.runScript(ctx, &scriptCreate, []string{s.keys.job(p.ID)}, ttl, record)
	for range maxTries {
		if err != nil {
			return nil, false, err
		}
		if r.int(0) == recordWritten {
			s.client.health.wrote()
			resolveTimes(job, now)
			return job, true, nil
		}
		stored, head, err := s.storedRecord(p.ID, r)
		switch {
		case err != nil:
			return nil, false, err
		case stored != nil && !stored.Refused():
			return stored, stored.Token == p.Token && stored.State == core.StateDispatched, nil
		case stored == nil: // it has just expired
			now, r, err = s.client.runScript(ctx, &scriptCreate, []string{s.keys.job(p.ID)}, ttl, record)
		default:
			now, r, err = s.replaceRecord(ctx, p.ID, replacement{ttl: ttl, head: head, record: record, recreate: true})
		}
		if err != nil {
			return nil, false, err
		}
	}
	return nil, false, errContended
}

// storedRecord decodes the record in the reply of a script, and returns it with its head; nil when there is none.
func (s *Store) storedRecord(id core.JobID, r reply) (*core.Job, string, error) {
	if len(r.parts) < 2 || r.isNil(1) {
		return nil, "", nil
	}
	return s.decodeWithHead(id, r.text(1))
}

// decodeWithHead decodes a record and returns it with its head.
func (s *Store) decodeWithHead(id core.JobID, text string) (*core.Job, string, error) {
	job, err := decodeRecord(id, text)
	s.client.logRefused(s.keys.job(id), err)
	return job, headText(text), err
}

// replacement is one compare-and-set of a record.
type replacement struct {
	ttl       string // 0: keep the current one
	head      string // the head of the record that is to be replaced
	record    string // the new record without the two times that it begins with
	notBefore int64  // the server's time before which it is refused; 0: none
	recreate  bool   // set the time of creation to now
}

func (s *Store) replaceRecord(ctx context.Context, id core.JobID, w replacement) (int64, reply, error) {
	keys, args := []string{s.keys.job(id)}, []string{w.ttl, w.head, w.record}
	switch {
	case w.recreate:
		args = append(args, "0", "1")
	case w.notBefore > 0:
		args = append(args, strconv.FormatInt(w.notBefore, 10))
	}
	return s.client.runScript(ctx, &scriptReplace, keys, args...)
}

// Apply implements store.Jobs. The transition is computed here, by store.Transition, and written if the record has not changed since.
func (s *Store) Apply(ctx context.Context, p store.ApplyParams) (store.Applied, error) {
	job, head, current, err := s.baseRecord(ctx, &p)
	for range maxTries {
		if err != nil {
			return store.Applied{}, err
		}
		if job == nil {
			return store.Applied{Outcome: store.NoJob}, nil
		}
		next, outcome, notBefore := transition(job, &p)
		if outcome != store.Decided {
			if current {
				return store.Applied{Outcome: outcome, Job: job}, nil
			}
			job, head, err = s.getRecord(ctx, p.Job) // the caller's record may be outdated
			current = true
			continue
		}
		now, r, err := s.writeTransition(ctx, next, p.Suspends, notBefore, head)
		switch {
		case err != nil:
			return store.Applied{}, err
		case r.int(0) == recordWritten:
			resolveTimes(next, now)
			if next.State.Terminal() {
				s.recent.add(next)
			}
			return store.Applied{Outcome: store.Decided, Job: next}, nil
		case r.int(0) == recordTooEarly:
			return store.Applied{Outcome: store.Owned, Job: job}, nil
		}
		if job, head, err = s.storedRecord(p.Job, r); err != nil {
			return store.Applied{}, err
		}
		current = true
	}
	return store.Applied{}, errContended
}

// baseRecord returns the record to start from and its head: the one that the caller has seen, or else the stored one, which is current.
func (s *Store) baseRecord(ctx context.Context, p *store.ApplyParams) (job *core.Job, head string, current bool, err error) {
	if p.Seen != nil && p.Seen.ID == p.Job {
		return p.Seen, headOf(p.Seen), false, nil
	}
	job, head, err = s.getRecord(ctx, p.Job)
	return job, head, true, err
}

// transition computes a transition without the server's time. Whether a retry may be taken over already is decided by the server: not
// before the returned time.
func transition(job *core.Job, p *store.ApplyParams) (next *core.Job, outcome store.Outcome, notBefore int64) {
	if p.Event == core.EventTakeover && job.State == core.StateRetrying && job.Owner != p.Owner {
		notBefore = job.Retry.UnixMilli()
		expired := *job
		expired.Retry = time.Time{}
		job = &expired
	}
	next, outcome = store.Transition(job, p, unresolvedNow)
	return next, outcome, notBefore
}

// writeTransition replaces the record with the given head by the next one. A live record keeps its TTL, an ended one gets the retention.
func (s *Store) writeTransition(ctx context.Context, next *core.Job, suspended bool, notBefore int64, head string) (int64, reply, error) {
	record, err := encode(next)
	if err != nil {
		return 0, reply{}, err
	}
	w := replacement{ttl: "0", head: head, record: record, notBefore: notBefore}
	switch {
	case next.State.Terminal():
		w.ttl = millis(s.timing.Retention)
	case suspended: // the record must outlive the wait for its audio
		w.ttl = millis(next.Deadline.Sub(next.Created) + 2*s.timing.Presence)
	}
	return s.replaceRecord(ctx, next.ID, w)
}

// getRecord reads a record and returns it with its head; nil when there is none.
func (s *Store) getRecord(ctx context.Context, id core.JobID) (*core.Job, string, error) {
	m, err := s.client.command(ctx, s.client.redis.B().Get().Key(s.keys.job(id)).Build())
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
	return s.decodeWithHead(id, text)
}

// Get implements store.Jobs.
func (s *Store) Get(ctx context.Context, id core.JobID) (*core.Job, error) {
	job, _, err := s.getRecord(ctx, id)
	if err == nil && job == nil {
		return nil, store.ErrNoJob
	}
	return job, err
}

// getRecords reads many records, without those that do not exist or cannot be read.
func (s *Store) getRecords(ctx context.Context, ids []core.JobID) ([]*core.Job, error) {
	var jobs []*core.Job
	for from := 0; from < len(ids); from += batchSize {
		batch := ids[from:min(from+batchSize, len(ids))]
		cmds := make([]rueidis.Completed, len(batch))
		for i, id := range batch {
			cmds[i] = s.client.redis.B().Get().Key(s.keys.job(id)).Build()
		}
		results, err := s.client.doMulti(s.client.beginCall(ctx), cmds)
		if err != nil {
			return nil, fmt.Errorf("get: %w", err)
		}
		for i, id := range batch {
			text, err := results[i].ToString()
			if rueidis.IsRedisNil(err) {
				continue
			}
			if err = convertError(err); err != nil && classOf(err) != store.ErrorReply {
				return nil, fmt.Errorf("get: %w", err)
			}
			s.client.logRefused(s.keys.job(id), err)
			if err != nil {
				continue
			}
			if job, _, err := s.decodeWithHead(id, text); err == nil {
				jobs = append(jobs, job)
			}
		}
	}
	return jobs, nil
}

// List implements store.Jobs. Unfinished jobs are those in the nodes' lease sets; ended ones are those that ended through this
// instance. An index of all jobs would cost every job a write in another slot.
func (s *Store) List(ctx context.Context, p store.ListParams) ([]*core.Job, error) {
	known := s.recent.list()
	if !p.OnlyEnded() {
		ids, err := s.unfinished(ctx, p.Node)
		if err != nil {
			return nil, err
		}
		live, err := s.getRecords(ctx, ids)
		if err != nil {
			return nil, err
		}
		for _, job := range live {
			known[job.ID] = job // it may have been created again after a refusal here
		}
	}
	var jobs []*core.Job
	for _, job := range known {
		if p.Selects(job) {
			jobs = append(jobs, job)
		}
	}
	return p.Page(jobs), nil
}

// unfinished lists the jobs in the lease sets: of one node, or of all.
func (s *Store) unfinished(ctx context.Context, node core.NodeID) ([]core.JobID, error) {
	nodes := []store.LastSeen{{Node: node}}
	if node == "" {
		all, err := s.Overdue(ctx, 0)
		if err != nil {
			return nil, err
		}
		nodes = all.Nodes
	}
	calls := make([]scriptCall, len(nodes))
	for i := range nodes {
		calls[i] = scriptCall{keys: []string{s.keys.leases(nodes[i].Node)}}
	}
	var ids []core.JobID
	err := s.client.readEach(ctx, &scriptLeases, calls, func(i int, now int64, r reply) {
		for _, l := range s.decodeLeases(nodes[i].Node, r.texts(0), now) {
			ids = append(ids, l.Job)
		}
	})
	slices.Sort(ids)
	return slices.Compact(ids), err
}

const (
	// maxRecentJobs is how many ended jobs an instance remembers.
	maxRecentJobs = 4096
	// maxRecentResult is the largest result that is remembered with them; GET /v1/jobs/{id} has the others.
	maxRecentResult = 4 << 10
)

// recentJobs remembers the last jobs that ended through this instance, in a ring.
type recentJobs struct {
	keep time.Duration

	mu   run.Mutex
	next int
	jobs []endedJob
}

type endedJob struct {
	job *core.Job
	at  time.Time
}

func (r *recentJobs) add(job *core.Job) {
	if len(job.Result) > maxRecentResult {
		trimmed := *job
		trimmed.Result = nil
		job = &trimmed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.jobs) < maxRecentJobs {
		r.jobs = append(r.jobs, endedJob{job, time.Now()})
		return
	}
	r.jobs[r.next] = endedJob{job, time.Now()}
	r.next = (r.next + 1) % maxRecentJobs
}

// list returns the jobs whose records are still kept, the latest version of each.
func (r *recentJobs) list() map[core.JobID]*core.Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	jobs := make(map[core.JobID]*core.Job)
	for _, e := range r.jobs {
		if old := jobs[e.job.ID]; time.Since(e.at) < r.keep && (old == nil || old.Updated.Before(e.job.Updated)) {
			jobs[e.job.ID] = e.job
		}
	}
	return jobs
}
