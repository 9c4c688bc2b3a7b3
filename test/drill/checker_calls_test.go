package drill

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
	"github.com/lingua-scheduler/lingua/wire"
)

// checkCallers checks the journals of the callers.
func (c *checker) checkCallers(had attemptHolders) {
	byRequest := make(map[string][]journal.Entry)
	for _, e := range c.callers {
		if e.Kind == journal.CallRefused {
			c.callsRefused++
			continue
		}
		byRequest[e.Request] = append(byRequest[e.Request], e)
	}
	c.callErrors = make(map[string]int)
	for _, entries := range byRequest {
		c.checkCall(entries, had)
	}
}

// checkCall checks one call: it becomes one job, which ends once, in time, and whose outcome does not change.
func (c *checker) checkCall(entries []journal.Entry, had attemptHolders) {
	begin := entries[0]
	if begin.Kind != journal.CallSent {
		c.addViolation(unknownTerminal, "%v", begin)
		return
	}
	c.calls++
	var job string
	var ends []journal.Entry
	for _, e := range entries {
		if job == "" {
			job = e.Job
		}
		if e.Job != "" && e.Job != job {
			c.addViolation(duplicateCall, "%s was its job before: %v", job, e)
		}
		switch e.Kind {
		case journal.JobNotFound:
			if !c.lossAround(e.At) {
				c.addViolation(lostJob, "no fault explains the loss: %v", e)
			}
		case journal.Terminal:
			ends = append(ends, e)
		case journal.OutcomeReread:
			if len(ends) > 0 {
				c.compareOutcomes(ends[0], e)
			}
		}
	}
	if len(ends) == 0 {
		c.addViolation(unfinishedCall, "its last entry: %v", entries[len(entries)-1])
		return
	}
	if len(ends) > 1 {
		c.addViolation(duplicateCall, "%v ended in %v", begin, ends)
	}
	c.checkEnd(begin, ends[0], had)
}

// checkEnd checks the outcome of a call.
func (c *checker) checkEnd(begin, end journal.Entry, had attemptHolders) {
	if end.OK {
		c.callsDone++
	} else {
		c.callErrors[end.Code]++
	}
	if took := time.Duration(end.At - begin.At); took > c.longestCall {
		c.longestCall, c.longestCallRequest = took, begin.Request
	}
	c.checkResult(end, had)
	c.checkLimits(begin, end)
}

// compareOutcomes compares the outcome of a job with the one that was read later.
func (c *checker) compareOutcomes(end, later journal.Entry) {
	if later.Code == string(wire.NotFound) {
		if !c.lossAround(later.At) && later.At-end.At < int64(minRecordRetention) {
			c.addViolation(lostJob, "%v was gone after %v: %v", end, time.Duration(later.At-end.At), later)
		}
		return
	}
	later.Kind, later.At = end.Kind, end.At
	if later != end && !c.lossAround(end.At) {
		c.addViolation(changedOutcome, "%v became %v", end, later)
	}
}

// checkResult checks that a result comes from a node that had the attempt and finished it.
func (c *checker) checkResult(e journal.Entry, had attemptHolders) {
	if !e.OK {
		return
	}
	if finished := had[attempt{e.Job, e.Attempt}][e.Node]; !finished || e.Code != "" {
		c.addViolation(foreignResult, "%v", e)
	}
}

// checkLimits checks the duration and the error of an utterance or a call against the faults that overlap with it. Time in which the machine
// was stalled does not count.
func (c *checker) checkLimits(begin, end journal.Entry) {
	faults := overlapping(c.injections, begin.At, end.At)
	until := begin.At + int64(c.answerLimit)
	for _, i := range faults {
		until = max(until, max(begin.At, i.from)+int64(i.recoveryLimit))
	}
	until += c.stalledBetween(begin.At, end.At)
	if end.At > until {
		c.addViolation(lateTerminal, "%v late, %v after %s, overlapping with %v: %v",
			time.Duration(end.At-until), time.Duration(end.At-begin.At), begin.Kind, faults, end)
	}
	if !end.OK && !isExplained(end.Code, faults) {
		c.addViolation(unexplainedError, "overlapping with %v: %v", faults, end)
	}
}

// isExplained reports whether faults explain an error: one of them allows it, or there are as many as a job has attempts,
// each of which can cost one.
func isExplained(code string, faults []*injection) bool {
	possible := 0
	for _, i := range faults {
		if slices.Contains(i.allowedCodes, code) {
			return true
		}
		if len(i.allowedCodes) > 0 {
			possible++
		}
	}
	return code == "MAX_RETRY_EXCEEDED" && possible >= maxAttempts
}

// maxAttempts is the number of attempts of each job.
const maxAttempts = 3

// callSummary is the part of the summary about calls.
func (c *checker) callSummary() string {
	var codes []string
	for _, code := range slices.Sorted(maps.Keys(c.callErrors)) {
		codes = append(codes, fmt.Sprintf("%s %d", code, c.callErrors[code]))
	}
	return fmt.Sprintf("%d calls, %d done, failed [%s], %d refused and repeated, longest %v (%s)",
		c.calls, c.callsDone, strings.Join(codes, ", "), c.callsRefused, c.longestCall.Round(time.Millisecond), c.longestCallRequest)
}
