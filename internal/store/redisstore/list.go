package redisstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// List implements store.Jobs. Unfinished jobs are those that the nodes' lease sets name; ended ones are those that
// ended here. An index of all jobs would cost every job a write in another slot.
func (s *Store) List(ctx context.Context, p store.ListParams) ([]*core.Job, error) {
	known := s.recent.list()
	if p.State == 0 || !p.State.Terminal() {
		ids, err := s.unfinished(ctx, p.Node)
		if err != nil {
			return nil, err
		}
		live, err := s.fetchEach(ctx, ids)
		if err != nil {
			return nil, err
		}
		for _, job := range live {
			known[job.ID] = job // it may have been made anew after it was refused here
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

// unfinished lists the jobs that lease sets name: of one node, or of all.
func (s *Store) unfinished(ctx context.Context, node core.NodeID) ([]core.JobID, error) {
	nodes := []store.LastSeen{{Node: node}}
	if node == "" {
		var err error
		if nodes, err = s.LastSeen(ctx); err != nil {
			return nil, err
		}
	}
	asks := make([]ask, len(nodes))
	for i := range nodes {
		asks[i] = ask{keys: []string{s.keys.leases(nodes[i].Node)}}
	}
	var ids []core.JobID
	err := s.line.readEach(ctx, &scriptOrphans, asks, func(i int, now int64, r reply) error {
		for _, l := range s.leases(nodes[i].Node, r.texts(0), now) {
			ids = append(ids, l.Job)
		}
		return nil
	})
	slices.Sort(ids)
	return slices.Compact(ids), err
}

const (
	// mostRecent is how many ended jobs an instance remembers.
	mostRecent = 4096
	// mostShown is the largest result that is remembered with them; GET /v1/jobs/{id} has the others.
	mostShown = 4 << 10
)

// recent remembers the jobs that ended here, as many as there is room for.
type recent struct {
	keep time.Duration

	mu   sync.Mutex
	next int
	jobs []ended
}

type ended struct {
	job *core.Job
	at  time.Time
}

func (r *recent) add(job *core.Job) {
	if len(job.Result) > mostShown {
		brief := *job
		brief.Result = nil
		job = &brief
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.jobs) < mostRecent {
		r.jobs = append(r.jobs, ended{job, time.Now()})
		return
	}
	r.jobs[r.next] = ended{job, time.Now()}
	r.next = (r.next + 1) % mostRecent
}

// list returns those whose records are still kept, the last of each name.
func (r *recent) list() map[core.JobID]*core.Job {
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
