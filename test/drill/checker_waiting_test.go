package drill

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
)

// Kinds of violations of waiting requests.
const (
	lateAnswer   = "a request that waited longer than it may"
	servedLate   = "a request that was served after the end of its wait"
	emptySlot    = "a slot that stayed empty while a request waited for it"
	overLimit    = "a tenant that had more jobs in flight than it may"
	differentJob = "a request that became another job when it was repeated"
	overtaken    = "a request that waited while later ones of its tenant, which may wait longer, were placed"
	deadWaiter   = "a request of a killed instance that stayed in the queue"
)

// The limits of waiting requests. Time in which the machine was stalled does not count in any of them.
const (
	// answerAllowance is how long after the end of a wait, on the clock of the caller, its answer may come. The wait begins when the instance
	// has read the request, and a request that is placed in its last moment is answered when its node has acknowledged the job.
	answerAllowance = 500 * time.Millisecond
	// createAllowance is how long after the end of a wait, on the clock of the caller, its job may be recorded: the wait begins when the instance
	// has read the request, and a call of the store may be decide_within_ms on its way.
	createAllowance = 400 * time.Millisecond
	// readAllowance is how long an instance may take to read a request: one that it has not read when it is stopped begins to wait later.
	readAllowance = 100 * time.Millisecond
	// queueAllowance is how long a request may take until it is in the queue, and overtakenFor how much longer it must have waited after a later one
	// was placed: an offer may have been on its way to it, which lapses after 300 ms.
	queueAllowance = 300 * time.Millisecond
	overtakenFor   = 400 * time.Millisecond
	// deadFor is how long requests of a killed instance may be in the queue: 700 ms, and until the next call for the queue.
	deadFor = 1200 * time.Millisecond
	// emptyInCalm and emptyAfterFault are how long a slot may stay empty while a request waits for it. After a fault was undone the higher
	// limit is in force for settleTime.
	emptyInCalm     = 300 * time.Millisecond
	emptyAfterFault = 1500 * time.Millisecond
	settleTime      = 2 * time.Second
)

// wait is a request that was sent to one instance and may have waited there.
type wait struct {
	journal.Entry               // WaitSent
	end           journal.Entry // WaitAnswered or WaitLeft; neither: it had no answer
	tenant        string
	src, tgt      string
	job           string // that it becomes if it is placed
	begins        int64  // when its instance could read it: when it was sent, unless the instance was stopped then
}

// deadline is when the wait ends, on the clock of the caller.
func (w *wait) deadline() int64 { return w.begins + w.Seq*int64(time.Millisecond) }

// waitingEvidence is what was recorded about waiting requests, beside the evidence of every drill.
type waitingEvidence struct {
	entries []journal.Entry // of the waiting callers
	kinds   map[string]clustertest.NodeKind
	free    map[string]spans // when nodes had a slot that could be reserved, according to the store
	queued  []queueSample    // the instances whose requests are in the queue
	outages spans            // of the store
	created map[string]int64 // when the record of each job was first written
	limits  map[string]int   // jobs that tenants may have in flight
	slack   time.Duration    // how much later than allowed anything may happen
}

// waitingFigures are what a drill measured of waiting requests.
type waitingFigures struct {
	waits, left, lost, waited int            // requests; whose caller left; whose connection was lost; that were placed after they had waited
	answers                   map[string]int // by code; OK is the empty one
	longestOver               time.Duration  // from the end of a wait to its answer
	longestEmpty              map[string]time.Duration
	maxInFlight               map[string]int // of tenants that have a limit
}

// waitingChecker checks waiting requests.
type waitingChecker struct {
	*checker
	waitingEvidence
	waitingFigures
	sent     []*wait
	earliest map[string]*wait // of each job
}

// checkWaiting checks the evidence of waiting requests against all guarantees.
func checkWaiting(c *checker, e waitingEvidence) *waitingChecker {
	w := &waitingChecker{checker: c, waitingEvidence: e}
	w.answers, w.longestEmpty, w.maxInFlight = make(map[string]int), make(map[string]time.Duration), make(map[string]int)
	w.sent = readWaits(e.entries)
	for _, one := range w.sent {
		for _, stopped := range w.faultsOf(one.instanceName()) {
			if one.At > stopped.from-int64(readAllowance) && one.At < stopped.to {
				one.begins = stopped.to
			}
		}
	}
	w.earliest = make(map[string]*wait)
	for _, one := range w.sent {
		if known := w.earliest[one.job]; known == nil || one.begins < known.begins {
			w.earliest[one.job] = one
		}
	}
	w.checkAnswersOfWaits()
	w.checkPlacements()
	w.checkEmptySlots()
	w.checkOrder()
	w.checkDeadWaiters()
	w.checkTenantLimits()
	return w
}

// readWaits reads the requests from the journal.
func readWaits(entries []journal.Entry) []*wait {
	type key struct {
		request  string
		instance int
	}
	var all []*wait
	open := make(map[key]*wait)
	for _, e := range entries {
		k := key{e.Request, e.Conn}
		switch e.Kind {
		case journal.WaitSent:
			w := &wait{Entry: e, begins: e.At}
			w.tenant, _, _ = strings.Cut(e.Session, ".")
			w.src, w.tgt, _ = strings.Cut(e.Code, ">")
			w.job = string(core.JobIDFor(core.TenantID(w.tenant), core.RequestID(e.Request)))
			open[k] = w
			all = append(all, w)
		case journal.WaitAnswered, journal.WaitLeft:
			if w := open[k]; w != nil {
				w.end = e
			}
		}
	}
	return all
}

// instanceName returns the name of the instance to which the request was sent.
func (w *wait) instanceName() string { return fmt.Sprintf("i-%d", w.Conn) }

// checkAnswersOfWaits checks that every request has an answer in time, whatever it is. An answer may be later only while the instance was stopped,
// or the store did not answer.
func (c *waitingChecker) checkAnswersOfWaits() {
	jobs := make(map[string]string)
	for _, w := range c.sent {
		c.waits++
		switch {
		case w.end.Kind == "":
			c.addViolation(lateAnswer, "no answer at all: %v", w.Entry)
			continue
		case w.end.Kind == journal.WaitLeft:
			c.left++
			continue
		case w.end.Code == clustertest.ConnectionLost:
			c.lost++
		default:
			c.answers[w.end.Code]++
		}
		if w.end.OK && w.end.At-w.At > int64(100*time.Millisecond) {
			c.waited++
		}
		if job := jobs[w.Request]; w.end.OK && job != "" && job != w.end.Job && !c.lossAround(w.end.At) {
			c.addViolation(differentJob, "%s before: %v", job, w.end)
		} else if w.end.OK {
			jobs[w.Request] = w.end.Job
		}
		limit := w.deadline() + c.stalledBetween(w.At, w.end.At)
		for _, o := range c.outages {
			if o.from < w.end.At && o.to > w.At {
				limit = max(limit, o.to)
			}
		}
		for _, i := range c.injections {
			if i.target == w.instanceName() && i.from < w.end.At && i.to > w.At {
				limit = max(limit, i.to)
			}
		}
		over := time.Duration(w.end.At - limit)
		c.longestOver = max(c.longestOver, over)
		if over > answerAllowance+c.slack {
			c.addViolation(lateAnswer, "%v after the end of its wait, overlapping with %v: %v became %v", over, overlapping(c.injections, w.At, w.end.At), w.Entry, w.end)
		}
	}
}

// checkPlacements checks that no job was recorded after all waits for it had ended.
func (c *waitingChecker) checkPlacements() {
	last := make(map[string]*wait) // by job
	for _, w := range c.sent {
		if l := last[w.job]; l == nil || w.deadline() > l.deadline() {
			last[w.job] = w
		}
	}
	for job, w := range last {
		at, created := c.created[job]
		if !created {
			continue
		}
		if late := time.Duration(at - w.deadline() - c.stalledBetween(w.At, at)); late > createAllowance+c.slack {
			c.addViolation(servedLate, "%s was recorded %v after the end of the last wait for it: %v", job, late, w.Entry)
		}
	}
}

// checkOrder checks that no request is placed while another one of its tenant and direction waits that was sent before and has the earlier deadline.
// In a fault the queue may be lost, and with it the order.
func (c *waitingChecker) checkOrder() {
	type line struct{ tenant, src, tgt string }
	lines := make(map[line][]*wait)
	for _, w := range c.sent {
		if _, limited := c.limits[w.tenant]; !limited {
			key := line{w.tenant, w.src, w.tgt}
			lines[key] = append(lines[key], w)
		}
	}
	for _, list := range lines {
		for _, first := range list {
			for _, later := range list {
				if c.overtook(later, first) {
					c.addViolation(overtaken, "%v was placed at %d before %v, which ended as %v", later.Entry, c.created[later.job], first.Entry, first.end)
					break
				}
			}
		}
	}
}

// overtook reports whether a request was placed in calm although it was the turn of another one. One that was sent to two instances waits at both: it
// has the turn of the one that it was sent to first.
func (c *waitingChecker) overtook(later, first *wait) bool {
	at, placed := c.created[later.job]
	if !placed || !later.end.OK || later != c.earliest[later.job] || later.begins < first.begins+int64(queueAllowance) || later.deadline() <= first.deadline() {
		return false
	}
	end := min(first.end.At, first.deadline())
	if created, ok := c.created[first.job]; ok {
		end = min(end, created)
	}
	if at < later.begins || end-at-c.stalledBetween(at, end) < int64(overtakenFor+c.slack) {
		return false
	}
	return !slices.ContainsFunc(c.injections, func(i *injection) bool { return at < i.to+int64(settleTime) && at+int64(overtakenFor+c.slack) > i.from })
}

// checkDeadWaiters checks that the requests of killed instances are removed from the queue.
func (c *waitingChecker) checkDeadWaiters() {
	for _, i := range c.injections {
		if i.name != killName {
			continue
		}
		var killed []string // incarnations
		for _, s := range c.queued {
			for _, incarnation := range s.instances {
				old := slices.Contains(killed, incarnation)
				if s.at < i.from && !old && strings.HasPrefix(incarnation, i.target+"-") {
					killed = append(killed, incarnation)
				}
				if late := time.Duration(s.at - i.from - c.stalledBetween(i.from, s.at)); old && late > deadFor+c.slack {
					c.addViolation(deadWaiter, "%v after %v: %v", late, i, incarnation)
				}
			}
		}
	}
}

// checkTenantLimits checks how many jobs of tenants nodes worked on at the same time. A job on two nodes counts once. A fault that makes the store lose
// writes may make it lose counts.
func (c *waitingChecker) checkTenantLimits() {
	tenants := make(map[string]string) // by job
	working := make(map[string]map[string]int)
	for _, e := range c.nodes {
		if e.Kind == journal.JobAssigned {
			tenants[e.Job], _, _ = strings.Cut(e.Session, ".")
		}
		tenant := tenants[e.Job]
		limit, limited := c.limits[tenant]
		if !limited {
			continue
		}
		jobs := working[tenant]
		if jobs == nil {
			jobs = make(map[string]int)
			working[tenant] = jobs
		}
		switch e.Kind {
		case journal.WorkStarted:
			jobs[e.Job]++
			c.maxInFlight[tenant] = max(c.maxInFlight[tenant], len(jobs))
			if len(jobs) > limit && !c.lossAround(e.At) {
				c.addViolation(overLimit, "%s has %d jobs in flight and may have %d: %v", tenant, len(jobs), limit, e)
			}
		case journal.WorkEnded, journal.WorkCancelled:
			if jobs[e.Job]--; jobs[e.Job] <= 0 {
				delete(jobs, e.Job)
			}
		}
	}
}

// waitingSummary returns the figures of waiting requests in one line.
func (c *waitingChecker) waitingSummary() string {
	var codes, empty []string
	for code, n := range c.answers {
		codes = append(codes, fmt.Sprintf("%s %d", cmp.Or(code, "placed"), n))
	}
	for phase, took := range c.longestEmpty {
		empty = append(empty, fmt.Sprintf("%s %v", phase, took.Round(time.Millisecond)))
	}
	slices.Sort(codes)
	slices.Sort(empty)
	return fmt.Sprintf("%d requests that may wait: %s; %d lost their connection, %d callers left; %d were placed after a wait; the longest answer after the end of a wait took %v; "+
		"longest empty slot with a waiting request: [%s]; most jobs in flight of tenants with a limit: %v",
		c.waits, strings.Join(codes, ", "), c.lost, c.left, c.waited, c.longestOver.Round(time.Millisecond), strings.Join(empty, ", "), c.maxInFlight)
}
