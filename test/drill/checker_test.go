package drill

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
)

// Kinds of violations.
const (
	unanswered        = "an utterance without a terminal message"
	duplicateTerminal = "an utterance with more than one terminal message"
	outOfOrder        = "terminal messages out of order"
	unknownTerminal   = "a terminal message for an utterance or a call that was not sent"
	redelivered       = "a durable message that was sent again after it had arrived"
	unexplainedGap    = "a gap that no fault explains"
	badSessionEnd     = "a session that was lost, or whose utterances were counted wrongly"
	wrongAudio        = "a result for other audio than was sent"
	wrongSpeech       = "speech that is not what the node sent"
	wrongCommit       = "an utterance that was committed twice, too late, with other frames, or not at all"
	lateTerminal      = "a terminal message that came too late"
	unexplainedError  = "an error that no fault explains"
	overloaded        = "a node that worked on more jobs than it has slots"
	overAssigned      = "a node that was assigned more jobs than it has slots"
	lateWrite         = clustertest.LateWrite
	supersededWrite   = clustertest.SupersededWrite
	foreignResult     = "a result from an attempt that its node did not have, or did not finish"
	splitAttempt      = "an attempt that two nodes started"
	missingNode       = "a node that did not reconnect, or stopped before it was asked to"
	stuckInbox        = "messages that stay in an inbox"
	wrongDeadLetter   = "dead letters that are not exactly the malformed messages"
	leftoverKey       = "a key that remains"
	blamedNode        = "a node that was blamed for what it did not do"
	missingEvent      = "an event that is not in the event log"
	unfinishedCall    = "a call that did not end"
	duplicateCall     = "a call that became more than one job, or ended more than once"
	changedOutcome    = "a job whose outcome changed"
	lostJob           = "a job that was accepted and whose record was lost"
	noCrossInstance   = "no result came from a node on another instance, so the drill proves nothing"
)

// violation is a broken guarantee, with the evidence.
type violation struct {
	kind     string
	evidence string
}

// figures are what a drill measured.
type figures struct {
	sessionCount, utterances, results     int
	errors                                map[string]int
	reconnects, resumes                   int
	unrecovered                           int
	longest                               time.Duration // from the end of an utterance to its terminal message
	longestRequest                        string
	jobs, attempts                        int // that nodes started
	maxConcurrent, overAssigned, rejected int
	dropped                               int // results that were not accepted
	speechExpected, speechComplete        int // results that announced speech, and those whose speech arrived completely
	calls, callsDone                      int
	callErrors                            map[string]int
	callsRefused                          int           // and sent again
	longestCall                           time.Duration // from the call to its end
	longestCallRequest                    string
	located, crossInstance                int // results for which the instances of node and session are known, and those of them with two instances
}

// evidence is what was recorded during a drill.
type evidence struct {
	sessions, nodes  []journal.Entry
	callers          []journal.Entry
	injections       []*injection
	stalls           []stall // of the machine
	scriptViolations []clustertest.ScriptViolation
	routes           [2]clustertest.Routes // of sessions, and of nodes
	multiInstance    bool                  // some results must come from a node on another instance
	answerLimit      time.Duration         // the time in which an utterance or a call that no fault overlaps must end
}

// checker collects violations and figures.
type checker struct {
	evidence
	figures
	violations []violation
}

func (c *checker) addViolation(kind, format string, args ...any) {
	c.violations = append(c.violations, violation{kind, fmt.Sprintf(format, args...)})
}

// check checks the evidence against all guarantees.
func check(e evidence) *checker {
	c := &checker{evidence: e}
	c.errors = make(map[string]int)
	byTime := func(a, b journal.Entry) int { return cmp.Compare(a.At, b.At) }
	slices.SortStableFunc(c.sessions, byTime)
	slices.SortStableFunc(c.nodes, byTime)
	slices.SortStableFunc(c.callers, byTime)
	had := c.checkNodes()
	for id, entries := range groupBySource(c.sessions) {
		c.sessionCount++
		c.checkSession(id, entries, had)
	}
	c.checkCallers(had)
	c.countCrossInstance()
	for _, w := range e.scriptViolations {
		if w.Kind == lateWrite || !c.lossAround(w.At) {
			c.addViolation(w.Kind, "%s", w.Evidence)
		}
	}
	for _, s := range e.injections {
		if s.inboxesErr != nil {
			c.addViolation(stuckInbox, "after %v: %v", s, s.inboxesErr)
		}
		if s.nodesErr != nil {
			c.addViolation(missingNode, "after %v: %v", s, s.nodesErr)
		}
	}
	return c
}

// groupBySource groups entries by session, node or caller.
func groupBySource(all []journal.Entry) map[string][]journal.Entry {
	by := make(map[string][]journal.Entry)
	for _, e := range all {
		by[e.Source] = append(by[e.Source], e)
	}
	return by
}

// attempt identifies an attempt of a job.
type attempt struct {
	job    string
	number int
}

// attemptHolder is the node that started an attempt, and when it finished it.
type attemptHolder struct {
	node       string
	finishedAt int64
}

// expired reports whether the record of the job may be gone: a repeated request then makes a new job with the same id.
func (h attemptHolder) expired(at int64) bool {
	return h.finishedAt > 0 && at-h.finishedAt > int64(recordRetention)
}

// attemptHolders is which nodes started each attempt, and whether they finished it.
type attemptHolders map[attempt]map[string]bool

// checkNodes checks the journals of the nodes, and returns which nodes had which attempts.
func (c *checker) checkNodes() attemptHolders {
	had := make(attemptHolders)
	holders := make(map[attempt]attemptHolder)
	jobs := make(map[string]bool)
	for _, e := range c.nodes {
		key := attempt{e.Job, e.Attempt}
		switch e.Kind {
		case journal.WorkStarted:
			c.attempts++
			jobs[e.Job] = true
			c.maxConcurrent = max(c.maxConcurrent, e.Held)
			if had[key] == nil {
				had[key] = make(map[string]bool)
			}
			had[key][e.Source] = had[key][e.Source] || false
			if other, ok := holders[key]; ok && other.node != e.Source && !other.expired(e.At) && !c.lossAround(e.At) {
				c.addViolation(splitAttempt, "%s had attempt %d of %s before: %v", other.node, e.Attempt, e.Job, e)
			}
			holders[key] = attemptHolder{node: e.Source}
		case journal.WorkEnded:
			if had[key] != nil && e.OK {
				had[key][e.Source] = true
			}
			switch {
			case e.OK:
				holders[key] = attemptHolder{e.Source, e.At}
			case holders[key].node == e.Source:
				delete(holders, key) // it returned the attempt: after NODE_BUSY another node gets it
			}
		case journal.WorkCancelled, journal.JobRejected:
			if holders[key].node == e.Source {
				delete(holders, key)
			}
			if e.Kind == journal.JobRejected {
				c.rejected++
			}
		case journal.ResultAcked:
			if !e.OK {
				c.dropped++
			}
		case journal.JobOverAssigned:
			c.overAssigned++
			if !c.lossAround(e.At) {
				c.addViolation(overAssigned, "%v", e)
			}
		case journal.NodeStopped:
			if !e.OK {
				c.addViolation(missingNode, "%v", e)
			}
		}
	}
	c.jobs = len(jobs)
	for source, entries := range groupBySource(c.nodes) {
		slots := 0
		for _, e := range entries {
			slots = max(slots, e.Slots)
			if e.Kind == journal.WorkStarted && slots > 0 && e.Held > slots {
				c.addViolation(overloaded, "%s has %d slots: %v", source, slots, e)
			}
		}
	}
	return had
}

// lossAround reports whether a fault may have made the store lose its last writes before a time.
func (c *checker) lossAround(at int64) bool {
	return slices.ContainsFunc(overlapping(c.injections, at, at), func(s *injection) bool { return s.mayLoseWrites })
}
