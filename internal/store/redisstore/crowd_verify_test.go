package redisstore_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// recover lets a new crew find and finish what the killed ones left behind. They know of it only from the nodes'
// heartbeats.
func (c *crowd) recover() {
	c.t.Helper()
	c.calm.Store(true)
	_, stop := c.begin()
	defer stop()
	deadline := time.Now().Add(time.Minute)
	open := c.jobs
	for {
		open = c.unfinished(open)
		busy := 0
		for _, n := range c.nodes {
			n.mu.Lock()
			busy += len(n.jobs)
			n.mu.Unlock()
		}
		if len(open) == 0 && busy == 0 {
			return
		}
		if !backoff.Sleep(c.t.Context(), 100*time.Millisecond) || time.Now().After(deadline) {
			c.t.Errorf("%d jobs never end, such as %v; the nodes have %d", len(open), open[:min(5, len(open))], busy)
			return
		}
	}
}

// unfinished are those of some jobs that have a record and no end.
func (c *crowd) unfinished(jobs []core.JobID) []core.JobID {
	var open []core.JobID
	for id, job := range c.records(jobs) {
		if !job.State.Terminal() {
			open = append(open, id)
		}
	}
	return open
}

// records reads the records of jobs, of those that have one.
func (c *crowd) records(jobs []core.JobID) map[core.JobID]*core.Job {
	c.t.Helper()
	var mu sync.Mutex
	found := make(map[core.JobID]*core.Job)
	var readers sync.WaitGroup
	for some := range slices.Chunk(jobs, max(1, (len(jobs)+31)/32)) {
		readers.Go(func() {
			for _, id := range some {
				job, err := c.store.Get(c.t.Context(), id)
				if errors.Is(err, store.ErrNoJob) {
					continue
				}
				if err != nil {
					c.t.Errorf("record of %s: %v", id, err)
					return
				}
				mu.Lock()
				found[id] = job
				mu.Unlock()
			}
		})
	}
	readers.Wait()
	return found
}

// verify holds every record against what the schedulers and the nodes have seen, and returns how the jobs ended.
func (c *crowd) verify() map[core.JobID]ending {
	c.t.Helper()
	jobs := c.records(c.jobs)
	ends := make(map[core.JobID]ending, len(jobs))
	for id, job := range jobs {
		e := ending{State: job.State.String(), Node: job.Node, Attempt: job.Attempt, Version: job.Version}
		ends[id] = e
		c.book.ended(id, e, false)
		mine, accepted := c.book.results[id]
		got := strings.Trim(string(job.Result), `"`)
		switch {
		case !job.State.Terminal():
			c.t.Errorf("%s is still %s", id, job.State)
		case accepted && (job.State != core.StateDone || got != mine):
			c.book.twice("of %s the result of %s was accepted, and then it ended as %+v with %q", id, mine, e, got)
		case job.State == core.StateDone && got != result(job.Node, job.Attempt):
			c.book.twice("%s ended as %+v with the result of %q", id, e, got)
		}
	}
	for _, id := range c.jobs {
		if _, kept := ends[id]; !kept && (c.placed[id] || c.book.ends[id] != ending{}) {
			c.t.Errorf("%s was placed and is not known any more", id)
		}
	}
	return ends
}

// report is the one line that says it all.
func (c *crowd) report(kills int, ends map[core.JobID]ending, took time.Duration) {
	c.t.Helper()
	states := make(map[string]int)
	attempts := 0
	for _, e := range ends {
		states[e.State]++
		if e.Attempt > 1 {
			attempts++
		}
	}
	var how []string
	for _, state := range slices.Sorted(maps.Keys(states)) {
		how = append(how, fmt.Sprintf("%d %s", states[state], state))
	}
	operations := c.crew.operations()
	c.t.Logf("%d operations, %d kills, %d oversold, %d leaked, %d double; %d schedulers, %d jobs (%s; %d moved) in %v",
		operations, kills, c.book.oversold, c.book.leaked, c.book.double, crewSize, len(ends), strings.Join(how, ", "), attempts, took.Round(time.Second))
	if operations < *crowdOperations || kills < *crowdKills {
		c.t.Errorf("%d operations and %d kills, want %d and %d", operations, kills, *crowdOperations, *crowdKills)
	}
	full := 0
	for _, n := range c.nodes {
		if n.most == n.slots {
			full++
		}
	}
	if full < len(c.nodes)/2 {
		c.t.Errorf("only %d of %d nodes were ever full: nobody tried to sell a slot twice", full, len(c.nodes))
	}
}
