package guard

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// Counter counts what this instance sees of jobs, and publishes it. Dispatch only puts observations into a queue; the counter's own
// goroutine counts them.
type Counter struct {
	instance core.InstanceID
	store    store.Stats
	interval time.Duration // between two publications
	log      *slog.Logger

	seed  maphash.Seed
	queue queue[observation]

	mu    sync.Mutex
	seq   uint64
	total tally // since the start
}

// NewCounter makes the counter of an instance, which publishes at an interval.
func NewCounter(instance core.InstanceID, st store.Stats, interval time.Duration, log *slog.Logger) *Counter {
	return &Counter{instance: instance, store: st, interval: interval, log: log, seed: maphash.MakeSeed(), total: newTally()}
}

// observation is something that dispatch has seen.
type observation struct {
	job     *core.Job      // it has ended
	refused core.Direction // of a request, if there is no job
}

// JobEnded counts a job whose end this instance has decided.
func (c *Counter) JobEnded(job *core.Job) {
	c.queue.add(maphash.String(c.seed, string(job.ID)), observation{job: job})
}

// RequestRefused counts a request that was refused because no node could take it.
func (c *Counter) RequestRefused(d core.Direction, _ wire.Code) {
	c.queue.add(maphash.String(c.seed, string(d.Src)), observation{refused: d})
}

// Dropped returns how many observations were not counted because there were too many at once.
func (c *Counter) Dropped() int64 { return c.queue.dropped.Load() }

// collect counts what is in the queue.
func (c *Counter) collect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.take(func(o *observation) {
		if o.job == nil {
			c.total.Refused.add(o.refused.String(), 1, maxRefused)
			return
		}
		c.total.Directions.add(o.job.Direction.String(), 1, maxNames)
		c.total.Outcomes.add(o.job.State.String(), 1, maxNames)
		if o.job.State != core.StateDone {
			c.total.Reasons.add(string(o.job.Reason), 1, maxNames)
		}
	})
}

// published is what an instance publishes. A later one has a higher Seq.
type published struct {
	Seq   uint64 `json:"seq"`
	Total tally  `json:"total"` // since the instance started
}

const (
	collectInterval = 500 * time.Millisecond
	// countsLive is for how many intervals the published counts live. The counts of an instance that has ended are read until then.
	countsLive = 12
)

// Run counts and publishes until the context ends, and then publishes once more.
func (c *Counter) Run(ctx context.Context) {
	failing := false
	for next := time.Now(); ; {
		c.collect()
		if now := time.Now(); !now.Before(next) {
			next = now.Add(c.interval)
			err := c.publish(ctx)
			if failed := err != nil && ctx.Err() == nil; failed != failing {
				failing = failed
				if failed {
					c.log.Warn("what this instance has counted could not be published; the statistics lack it until it can be", "error", err)
				}
			}
		}
		if !backoff.Sleep(ctx, collectInterval) {
			break
		}
	}
	c.collect()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = c.publish(last) // the statistics lack the last moments of this instance if it fails
}

// publish publishes the counts.
func (c *Counter) publish(ctx context.Context) error {
	c.mu.Lock()
	c.seq++
	body, err := json.Marshal(published{Seq: c.seq, Total: c.total})
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.store.SaveCounts(ctx, store.CountsParams{ID: c.instance, Body: body, TTL: countsLive * c.interval})
}
