package stats

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"hash/maphash"
	"log/slog"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// Counter counts what this instance sees of jobs, and publishes it. Dispatch only puts observations into a queue; the counter's own
// goroutine counts them.
type Counter struct {
	instance core.InstanceID
	store    store.Values
	interval time.Duration // between two publications
	log      *slog.Logger

	seed  maphash.Seed
	queue queue[observation]

	mu      run.Mutex
	seq     uint64
	total   tally           // since the start
	tracker *health.Tracker // of the health of nodes
	waits   waits

	series *NodeSeries // what is counted of nodes is part of their series; nil: there are none
	load   func() Load // of this instance; nil: it is not published

	// suspect is called again and again with each node that is an outlier by what this instance has seen itself; nil: nothing is called.
	suspect func(core.NodeID)
	// node returns a node of the fleet, or nil; nil: the fleet is not known. What is seen of a node on probation is published although it
	// does not fail.
	node func(core.NodeID) *core.Node
}

// NewCounter makes the counter of an instance, which publishes at an interval.
func NewCounter(instance core.InstanceID, st store.Values, interval time.Duration, log *slog.Logger) *Counter {
	c := &Counter{instance: instance, store: st, interval: interval, log: log, seed: maphash.MakeSeed(),
		mu: run.NewMutex("guard_counter"), total: newTally(), tracker: health.NewTracker()}
	c.queue.init()
	return c
}

// blameless reports whether something that was observed of a node says nothing about it. Attempts that end while it is ejected began
// before, and would be held against it on its probation. A delivery that was refused to a node with a WebSocket failed because its
// connection, or the instance to which it is connected, is gone: otherwise the nodes of an instance that died would be ejected.
func (c *Counter) blameless(o *observation) bool {
	if c.node == nil {
		return false
	}
	n := c.node(o.node)
	return n != nil && (n.Admission.Ejected() || o.reason == core.ReasonDeliveryRefused && n.Callback == "")
}

func (c *Counter) onProbation(id core.NodeID) bool {
	if c.node == nil {
		return false
	}
	n := c.node(id)
	return n != nil && n.Admission.Limited && !n.Admission.Ejected()
}

// Load is what an instance publishes of its work beside what it counts.
type Load struct {
	Waiting    int                       `json:"waiting,omitempty"`    // requests that wait for a free slot
	Dispatched telemetry.DispatchBuckets `json:"dispatched,omitempty"` // since the start, as are the others below
	Retries    int64                     `json:"retries,omitempty"`    // attempts that were followed by another
	Lag        telemetry.LagDurations    `json:"lag,omitzero"`         // of results that were sent to sessions
	// WaitingBy has Waiting by direction. It is published beside the load: the leader does not have to remember it.
	WaitingBy map[core.Direction]int `json:"-"`
}

// observation is something that dispatch has seen.
type observation struct {
	kind      observationKind
	job       *core.Job
	node      core.NodeID
	direction core.Direction
	reason    core.Reason
	code      wire.Code
	waited    time.Duration
}

type observationKind uint8

const (
	jobEnded observationKind = iota
	requestRefused
	acknowledged
	attemptEnded
)

// Acknowledged counts a job that a node has acknowledged.
func (c *Counter) Acknowledged(node core.NodeID) {
	c.queue.add(maphash.String(c.seed, string(node)), observation{kind: acknowledged, node: node})
}

// AttemptEnded counts an attempt that has ended.
func (c *Counter) AttemptEnded(node core.NodeID, d core.Direction, reason core.Reason) {
	c.queue.add(maphash.String(c.seed, string(node)), observation{kind: attemptEnded, node: node, direction: d, reason: reason})
}

// JobEnded counts a job whose end this instance has decided.
func (c *Counter) JobEnded(job *core.Job) {
	c.queue.add(maphash.String(c.seed, string(job.ID)), observation{kind: jobEnded, job: job})
}

// RequestRefused counts a request that was refused after a wait.
func (c *Counter) RequestRefused(d core.Direction, code wire.Code, waited time.Duration) {
	c.queue.add(maphash.String(c.seed, string(d.Src)), observation{kind: requestRefused, direction: d, code: code, waited: waited})
}

// Dropped returns how many observations were not counted because there were too many at once.
func (c *Counter) Dropped() int64 { return c.queue.dropped.Load() }

// collect counts what is in the queue.
func (c *Counter) collect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.tracker.Advance(now)
	c.waits.advance(now)
	c.queue.take(func(o *observation) {
		switch o.kind {
		case acknowledged:
			if !c.blameless(o) {
				c.tracker.Acknowledged(o.node)
			}
		case attemptEnded:
			if !c.blameless(o) {
				c.tracker.Ended(o.node, o.direction, o.reason)
			}
			if c.series != nil {
				c.series.addFailure(o.node, o.reason)
			}
		case requestRefused:
			c.total.Refused.add(o.direction.String(), 1, maxRefused)
			c.total.Refusals.add(string(o.code), 1, health.MaxNames)
			c.waits.add(o.direction.String(), o.waited)
		case jobEnded:
			c.total.Directions.add(o.job.Direction.String(), 1, health.MaxNames)
			c.waits.add(o.job.Direction.String(), time.Duration(o.job.Utterance.WaitMS)*time.Millisecond)
			c.total.Outcomes.add(o.job.State.String(), 1, health.MaxNames)
			if last := len(o.job.History) - 1; c.series != nil && last >= 0 && o.job.State == core.StateDone {
				c.series.add(o.job.Node, true, o.job.Updated.Sub(o.job.History[last].Started))
			}
			if o.job.State != core.StateDone {
				c.total.Reasons.add(string(o.job.Reason), 1, health.MaxNames)
			}
		}
	})
	if c.suspect == nil {
		return
	}
	seen := c.tracker.Observed()
	for id := range seen.Nodes {
		if seen.Outlier(id) != "" {
			c.suspect(id)
		}
	}
}

// counted is what an instance has counted since it started. A later one has a higher Seq.
type counted struct {
	Seq   uint64 `json:"seq"`
	Total tally  `json:"total"`
	Load  Load   `json:"load,omitzero"`
}

// published is what an instance publishes.
type published struct {
	counted
	Health health.Report `json:"health"`
	// Waits is how long the requests of the last minutes waited for a free slot, and Waiting how many wait now, both by direction.
	Waits   map[string]*telemetry.Durations `json:"waits,omitempty"`
	Waiting counts                          `json:"waiting,omitempty"`
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
		now := time.Now()
		if !now.Before(next) {
			next = now.Add(untilNext(now, c.interval, c.phase()))
			err := c.publish(ctx)
			if failed := err != nil && ctx.Err() == nil; failed != failing {
				failing = failed
				if failed {
					c.log.Warn("what this instance has counted could not be published; the statistics lack it until it can be", "error",
						err)
				}
			}
		}
		if !run.Sleep(ctx, min(collectInterval, time.Until(next))) {
			break
		}
	}
	c.collect()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = c.publish(last) // the statistics lack the last moments of this instance if it fails
}

// phase is how long after the multiples of the interval this instance publishes: up to a quarter of it, so that instances do not write at
// once.
func (c *Counter) phase() time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(c.instance)) // never fails
	return c.interval / 4 * time.Duration(h.Sum32()%256) / 256
}

// publish publishes the counts.
func (c *Counter) publish(ctx context.Context) error {
	load := Load{}
	if c.load != nil {
		load = c.load()
	}
	waiting := counts{}
	for d, n := range load.WaitingBy {
		waiting.add(d.String(), int64(n), health.MaxNames)
	}
	c.mu.Lock()
	c.seq++
	body, err := json.Marshal(published{
		counted: counted{Seq: c.seq, Total: c.total, Load: load}, Health: c.tracker.ObservedWith(c.onProbation), Waits: c.waits.sum(),
		Waiting: waiting,
	})
	c.mu.Unlock()
	if err != nil {
		return err
	}
	_, err = c.store.WriteValue(ctx, store.WriteValueParams{
		Key: countsKey(c.instance), Parts: map[string][]byte{store.BodyPart: body}, TTL: countsLive * c.interval,
	})
	return err
}
