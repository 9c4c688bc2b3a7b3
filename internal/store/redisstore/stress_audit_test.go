package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

// book is what the auditor has found: what nodes were really given, and which ends of jobs anybody has ever seen.
type book struct {
	tb testing.TB

	mu                       sync.Mutex
	oversold, leaked, double int
	ends                     map[core.JobID]ending
	decided                  map[core.JobID]bool
	results                  map[core.JobID]string // acknowledged to the node that made it
}

// ending is how a job ended. Whoever sees its record again sees the same.
type ending struct {
	State   string
	Node    core.NodeID
	Attempt int
	Version int
}

func newBook(tb testing.TB) *book {
	return &book{
		tb: tb, ends: make(map[core.JobID]ending), decided: make(map[core.JobID]bool), results: make(map[core.JobID]string),
	}
}

// find notes a breach. Only the first few are told at length.
func (b *book) find(count *int, format string, args ...any) {
	b.mu.Lock()
	*count++
	n := *count
	b.mu.Unlock()
	if n <= 10 {
		b.tb.Errorf(format, args...)
	}
}

func (b *book) over(format string, args ...any)  { b.find(&b.oversold, "oversold: "+format, args...) }
func (b *book) leak(format string, args ...any)  { b.find(&b.leaked, "leaked: "+format, args...) }
func (b *book) twice(format string, args ...any) { b.find(&b.double, "double: "+format, args...) }

// ended takes in that somebody has seen a job's end, or decided it.
func (b *book) ended(job core.JobID, e ending, decided bool) {
	b.mu.Lock()
	first, known := b.ends[job]
	if !known {
		b.ends[job], first = e, e
	}
	again := decided && b.decided[job]
	b.decided[job] = b.decided[job] || decided
	b.mu.Unlock()
	if first != e {
		b.twice("%s was seen to end as %+v and as %+v", job, first, e)
	}
	if again {
		b.twice("%s was decided twice, the second time as %+v", job, e)
	}
}

// accepted takes in that a node was told that its result stands.
func (b *book) accepted(node core.NodeID, job store.ActiveJob) {
	mine := result(node, job.Attempt)
	b.mu.Lock()
	other, known := b.results[job.Job]
	b.results[job.Job] = mine
	b.mu.Unlock()
	if known && other != mine {
		b.twice("of %s both the result of %s and of %s were accepted", job.Job, other, mine)
	}
}

// lookAt reads a lease set as it is, and the time on the same clock.
const lookAt = `return {redis.call('TIME')[1], redis.call('TIME')[2], redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')}`

// rawLease is a lease as it stands in Redis.
type rawLease struct {
	name     string
	job      store.ActiveJob
	reserved bool // not confirmed
}

// livingLeases reads which leases of a node count, and asks nobody but Redis.
func livingLeases(server *redistest.Server, prefix string, node core.NodeID) ([]rawLease, error) {
	reply, err := server.Do("EVAL", lookAt, "1", redisstore.LeasesKey(prefix, node))
	if err != nil {
		return nil, err
	}
	parts, _ := reply.([]any)
	seconds, _ := strconv.ParseInt(parts[0].(string), 10, 64)
	micros, _ := strconv.ParseInt(parts[1].(string), 10, 64)
	now := seconds*1000 + micros/1000
	flat, _ := parts[2].([]any)
	var living []rawLease
	for i := 0; i+1 < len(flat); i += 2 {
		value, err := strconv.ParseFloat(flat[i+1].(string), 64)
		if err != nil {
			return nil, fmt.Errorf("a lease with the score %v", flat[i+1])
		}
		score := redisstore.ReadScore(value)
		if score.Expires <= now {
			continue
		}
		l := rawLease{name: flat[i].(string), reserved: score.State == core.LeaseReserved}
		name := strings.Split(l.name, "|")
		l.job.Job = core.JobID(name[0])
		l.job.Attempt, _ = strconv.Atoi(name[1])
		living = append(living, l)
	}
	return living, nil
}

// idle is since when a lease has counted although the node does not have its job, and since when the node has said so
// in a heartbeat that was heard and that was not too early to mean anything. From then on nothing may renew it.
type idle struct{ since, denied time.Time }

// listed takes in that a heartbeat with this list, made at that time, was heard.
func (n *crowdNode) listed(list []store.ActiveJob, made time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	has := make(map[store.ActiveJob]bool)
	for _, job := range list {
		has[job] = true
	}
	for name, i := range n.idle {
		l := strings.Split(name, "|")
		attempt, _ := strconv.Atoi(l[1])
		if i.denied.IsZero() && made.Sub(i.since) > crowdTiming.ReservedTTL && !has[store.ActiveJob{Job: core.JobID(l[0]), Attempt: attempt}] {
			i.denied = time.Now()
			n.idle[name] = i
		}
	}
}

// audit holds what counts in Redis against what the node really does. While it looks, the node takes and finishes
// nothing, so every job it runs has a lease that counts, and those that are reserved beside them were granted too.
// (Confirmed leases of jobs that it does not run are left aside: the node's own lists may revive or adopt those.)
func (n *crowdNode) audit() {
	n.mu.Lock()
	defer n.mu.Unlock()
	living, err := livingLeases(n.crowd.server, n.crowd.prefix, n.id)
	if err != nil {
		n.crowd.t.Errorf("the auditor cannot look at %s: %v", n.id, err)
		return
	}
	granted, now, still := n.running(), time.Now(), make(map[string]idle)
	for _, l := range living {
		w := n.jobs[l.job]
		if l.reserved && (w == nil || w.finished) {
			granted++
		}
		if w != nil {
			continue
		}
		i, known := n.idle[l.name]
		if !known {
			i.since = now
		}
		if !i.denied.IsZero() && now.Sub(i.denied) > crowdTiming.Presence+time.Second {
			n.crowd.book.leak("%s counts %s, which the node has denied to have for %v:\n%s", n.id, l.name, now.Sub(i.denied), &n.diary)
			i.denied = now
		}
		still[l.name] = i
	}
	n.idle = still
	if granted > n.slots {
		n.crowd.book.over("%s has granted %d leases on %d slots; it runs %d jobs, and these count: %v\n%s", n.id, granted, n.slots, n.running(), living, &n.diary)
	}
}

// audits looks at every node again and again.
func (c *crowd) audits(ctx context.Context) {
	for backoff.SleepJitter(ctx, 10*time.Millisecond, 0.5) {
		c.nodes[time.Now().UnixNano()%int64(len(c.nodes))].audit()
	}
}
