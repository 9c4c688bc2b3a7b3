package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// auditor collects what the schedulers and the nodes report, and finds violations of the promises.
type auditor struct {
	tb testing.TB

	mu                       sync.Mutex
	oversold, leaked, double int
	outcomes                 map[core.JobID]outcome
	decided                  map[core.JobID]bool
	results                  map[core.JobID]string // by job: the result that was acknowledged to its node
}

// outcome is how a job ended. Every later read of its record must be the same.
type outcome struct {
	State   string
	Node    core.NodeID
	Attempt int
	Version int
}

func newAuditor(tb testing.TB) *auditor {
	return &auditor{
		tb: tb, outcomes: make(map[core.JobID]outcome), decided: make(map[core.JobID]bool), results: make(map[core.JobID]string),
	}
}

// violation counts a violation and reports the first ten.
func (b *auditor) violation(count *int, format string, args ...any) {
	b.mu.Lock()
	*count++
	n := *count
	b.mu.Unlock()
	if n <= 10 {
		b.tb.Errorf(format, args...)
	}
}

func (b *auditor) reportOversold(format string, args ...any) {
	b.violation(&b.oversold, "oversold: "+format, args...)
}
func (b *auditor) reportLeak(format string, args ...any) {
	b.violation(&b.leaked, "leaked: "+format, args...)
}
func (b *auditor) reportDouble(format string, args ...any) {
	b.violation(&b.double, "double: "+format, args...)
}

// recordOutcome records that a scheduler has read or decided the outcome of a job.
func (b *auditor) recordOutcome(job core.JobID, e outcome, decided bool) {
	b.mu.Lock()
	first, known := b.outcomes[job]
	if !known {
		b.outcomes[job], first = e, e
	}
	again := decided && b.decided[job]
	b.decided[job] = b.decided[job] || decided
	b.mu.Unlock()
	if first != e {
		b.reportDouble("%s was read with the outcomes %+v and %+v", job, first, e)
	}
	if again {
		b.reportDouble("%s was decided twice, the second time as %+v", job, e)
	}
}

// recordResult records that a result was acknowledged to its node.
func (b *auditor) recordResult(node core.NodeID, job store.ActiveJob) {
	mine := resultOf(node, job.Attempt)
	b.mu.Lock()
	other, known := b.results[job.Job]
	b.results[job.Job] = mine
	b.mu.Unlock()
	if known && other != mine {
		b.reportDouble("two results of %s were accepted, of %s and of %s", job.Job, other, mine)
	}
}

// readLeases reads a lease set and the server's time.
const readLeases = `return {redis.call('TIME')[1], redis.call('TIME')[2], redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')}`

// rawLease is a lease as it is stored in Redis.
type rawLease struct {
	name     string
	job      store.ActiveJob
	reserved bool // not committed
}

// liveLeases reads the live leases of a node directly from Redis.
func liveLeases(server *redistest.Server, prefix string, node core.NodeID) ([]rawLease, error) {
	reply, err := server.Do("EVAL", readLeases, "1", redisstore.LeasesKey(prefix, node))
	if err != nil {
		return nil, err
	}
	parts, _ := reply.([]any)
	seconds, _ := strconv.ParseInt(parts[0].(string), 10, 64)
	micros, _ := strconv.ParseInt(parts[1].(string), 10, 64)
	now := seconds*1000 + micros/1000
	flat, _ := parts[2].([]any)
	var live []rawLease
	for i := 0; i+1 < len(flat); i += 2 {
		value, err := strconv.ParseFloat(flat[i+1].(string), 64)
		if err != nil {
			return nil, fmt.Errorf("a lease with the score %v", flat[i+1])
		}
		score := redisstore.ParseScore(value)
		if score.Expires <= now {
			continue
		}
		l := rawLease{name: flat[i].(string), reserved: score.State == core.LeaseReserved}
		name := strings.Split(l.name, "|")
		l.job.Job = core.JobID(name[0])
		l.job.Attempt, _ = strconv.Atoi(name[1])
		live = append(live, l)
	}
	return live, nil
}

// unheldLease is a live lease of a job that the node does not have: since when, and since when an accepted heartbeat that was not too
// early has omitted it. From then on nothing may renew it.
type unheldLease struct{ since, omitted time.Time }

// recordList records that a heartbeat with this list, made at that time, was accepted.
func (n *stressNode) recordList(list []store.ActiveJob, made time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	has := make(map[store.ActiveJob]bool)
	for _, job := range list {
		has[job] = true
	}
	for name, i := range n.unheld {
		l := strings.Split(name, "|")
		attempt, _ := strconv.Atoi(l[1])
		if i.omitted.IsZero() && made.Sub(i.since) > stressTiming.ReservedTTL && !has[store.ActiveJob{Job: core.JobID(l[0]), Attempt: attempt}] {
			i.omitted = time.Now()
			n.unheld[name] = i
		}
	}
}

// check compares the live leases in Redis with the jobs of the node. The node is locked, so every job that it runs has a live lease, and
// the reserved ones beside them were granted too. (Running leases of jobs that it does not have are ignored: the node's own lists may
// renew or adopt those.)
func (n *stressNode) check() {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now() // before they are read: they may expire while this process is stalled
	live, err := liveLeases(n.test.server, n.test.prefix, n.id)
	if err != nil {
		n.test.t.Errorf("read the leases of %s: %v", n.id, err)
		return
	}
	granted, unheld := n.running(), make(map[string]unheldLease)
	for _, l := range live {
		w := n.jobs[l.job]
		if l.reserved && (w == nil || w.finished) {
			granted++
		}
		if w != nil {
			continue
		}
		i, known := n.unheld[l.name]
		if !known {
			i.since = now
		}
		if !i.omitted.IsZero() && now.Sub(i.omitted) > stressTiming.Presence+time.Second {
			n.test.audit.reportLeak("%s has the live lease %s, which the node has omitted for %v:\n%s", n.id, l.name, now.Sub(i.omitted), &n.events)
			i.omitted = now
		}
		unheld[l.name] = i
	}
	n.unheld = unheld
	if granted > n.slots {
		n.test.audit.reportOversold("%s has granted %d leases on %d slots; it runs %d jobs, and its live leases are %v\n%s", n.id, granted, n.slots, n.running(), live, &n.events)
	}
}

// auditNodes checks random nodes until the context ends.
func (c *stressTest) auditNodes(ctx context.Context) {
	for run.SleepJitter(ctx, 10*time.Millisecond, 0.5) {
		c.nodes[time.Now().UnixNano()%int64(len(c.nodes))].check()
	}
}

// eventLog contains the last events of a node, to explain a violation.
type eventLog struct{ lines []string }

const eventLogLines = 50

func (d *eventLog) add(format string, args ...any) {
	if len(d.lines) == 2*eventLogLines {
		d.lines = append(d.lines[:0], d.lines[eventLogLines:]...)
	}
	d.lines = append(d.lines, time.Now().Format("05.0000 ")+fmt.Sprintf(format, args...))
}

func (d *eventLog) String() string {
	return strings.Join(d.lines[max(0, len(d.lines)-eventLogLines):], "\n")
}
