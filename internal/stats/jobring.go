package stats

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

const (
	// Size is how many ended jobs, and how many decisions, an instance remembers.
	Size = 20_000
	// maxAttempts is how many attempts of a job are remembered, the last ones.
	maxAttempts = 8
	// maxDetail is how many bytes of a node's own words are remembered.
	maxDetail = 200
)

// JobRing remembers jobs and decisions. A nil JobRing remembers nothing.
type JobRing struct {
	began     time.Time
	jobs      entryRing
	decisions entryRing
}

// NewJobRing makes a ring.
func NewJobRing() *JobRing {
	return &JobRing{
		began: time.Now(),
		jobs:  entryRing{mu: run.NewMutex("jobring_jobs")}, decisions: entryRing{mu: run.NewMutex("jobring_decisions")},
	}
}

// entryRing holds the last entries.
type entryRing struct {
	mu      run.Mutex
	entries []string
	next    int // the place of the next entry, once the ring is full
}

// add adds an entry, in place of the oldest if the ring is full.
func (r *entryRing) add(entry string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.entries) < Size {
		r.entries = append(r.entries, entry)
		return
	}
	r.entries[r.next] = entry
	r.next = (r.next + 1) % Size
}

// all returns the entries, the newest first.
func (r *entryRing) all() []string {
	r.mu.Lock()
	all := make([]string, 0, len(r.entries))
	all = append(append(all, r.entries[r.next:]...), r.entries[:r.next]...)
	r.mu.Unlock()
	slices.Reverse(all)
	return all
}

// oldest returns the oldest entry of a full ring; empty: nothing was dropped yet.
func (r *entryRing) oldest() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.entries) < Size {
		return ""
	}
	return r.entries[r.next]
}

// Since returns the time since which every job that ended is remembered.
func (r *JobRing) Since() time.Time {
	if r == nil {
		return time.Now()
	}
	var job core.Job
	if entry := r.jobs.oldest(); entry != "" && decodeJob(entry, &job) {
		return job.Updated
	}
	return r.began
}

// AddJob remembers a job that has ended. Its result and its audio are left out.
func (r *JobRing) AddJob(job *core.Job) {
	if r != nil {
		r.jobs.add(encodeJob(job))
	}
}

// match is an entry that a search selects.
type match struct {
	at    store.JobPosition
	entry string
}

// Search returns the jobs that match, the newest first, without their results.
func (r *JobRing) Search(p *store.ListParams) []*core.Job {
	if r == nil {
		return nil
	}
	var matches []match
	var job core.Job
	for _, entry := range r.jobs.all() {
		if job.History = job.History[:0]; decodeJob(entry, &job) && p.Selects(&job) {
			matches = append(matches, match{store.PositionOf(&job), entry})
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int { return a.at.Compare(b.at) })
	var found []*core.Job
	seen := make(map[core.JobID]bool) // a refused job may have been made again, and have ended twice
	for _, m := range matches {
		if p.Limit > 0 && len(found) == p.Limit {
			break
		}
		if next := new(core.Job); !seen[m.at.Job] && decodeJob(m.entry, next) {
			seen[m.at.Job] = true
			found = append(found, next)
		}
	}
	return found
}

// Job returns a job that has ended; nil if it is not remembered.
func (r *JobRing) Job(id core.JobID) *core.Job {
	if r == nil {
		return nil
	}
	prefix := encodedID(id)
	for _, entry := range r.jobs.all() {
		if job := new(core.Job); strings.HasPrefix(entry, prefix) && decodeJob(entry, job) {
			return job
		}
	}
	return nil
}

// AddDecision remembers a decision. It keeps neither d nor its candidates, of which there may be any number.
func (r *JobRing) AddDecision(d *core.Decision) {
	if r != nil {
		r.decisions.add(encodeDecision(d))
	}
}

// Decisions returns the decisions about a job, in the order of its attempts.
func (r *JobRing) Decisions(id core.JobID) []core.Decision {
	if r == nil {
		return nil
	}
	var found []core.Decision
	prefix := encodedID(id)
	for _, entry := range r.decisions.all() {
		if d := (core.Decision{}); strings.HasPrefix(entry, prefix) && decodeDecision(entry, &d) {
			found = append(found, d)
		}
	}
	slices.SortStableFunc(found, func(a, b core.Decision) int {
		return cmp.Or(cmp.Compare(a.AtMS, b.AtMS), cmp.Compare(a.Attempt, b.Attempt))
	})
	return found
}
