package drill

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// checkCallers holds what callers saw against what they called for.
func (c *checker) checkCallers(had holding) {
	byRequest := make(map[string][]entry)
	for _, e := range c.callers {
		if e.What == refused {
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

// checkCall looks at one call: it becomes one job, which ends once, in time, and stays as it ended.
func (c *checker) checkCall(entries []entry, had holding) {
	begin := entries[0]
	if begin.What != called {
		c.breaks(stranger, "%v", begin)
		return
	}
	c.calls++
	var job string
	var ends []entry
	for _, e := range entries {
		if job == "" {
			job = e.Job
		}
		if e.Job != "" && e.Job != job {
			c.breaks(reborn, "%s was its job before: %v", job, e)
		}
		switch e.What {
		case vanished:
			if !c.lossAround(e.At) {
				c.breaks(forgot, "the store lost nothing, and yet: %v", e)
			}
		case terminal:
			ends = append(ends, e)
		case looked:
			if len(ends) > 0 {
				c.compare(ends[0], e)
			}
		}
	}
	if len(ends) == 0 {
		c.breaks(unended, "the last that is known: %v", entries[len(entries)-1])
		return
	}
	if len(ends) > 1 {
		c.breaks(reborn, "%v ended in %v", begin, ends)
	}
	c.checkEnd(begin, ends[0], had)
}

// checkEnd looks at the end of a call.
func (c *checker) checkEnd(begin, end entry, had holding) {
	if end.OK {
		c.callsDone++
	} else {
		c.callErrors[end.Code]++
	}
	if took := time.Duration(end.At - begin.At); took > c.longestCall {
		c.longestCall, c.longestCallOf = took, begin.Request
	}
	c.checkResult(end, had)
	c.judge(begin, end)
}

// compare holds the end of a job against what was found later.
func (c *checker) compare(end, later entry) {
	if later.Code == string(wire.NotFound) {
		if !c.lossAround(later.At) && later.At-end.At < int64(remembered) {
			c.breaks(forgot, "%v was gone after %v: %v", end, time.Duration(later.At-end.At), later)
		}
		return
	}
	later.What, later.At = end.What, end.At
	if later != end && !c.lossAround(end.At) {
		c.breaks(relapsed, "%v became %v", end, later)
	}
}

// checkResult looks whether a result comes from a node that had the attempt and finished it.
func (c *checker) checkResult(e entry, had holding) {
	if !e.OK {
		return
	}
	if finished := had[attempt{e.Job, e.Attempt}][e.Node]; !finished || e.Code != "" {
		c.breaks(unheld, "%v", e)
	}
}

// judge holds the time that an utterance or a call took from its begin to its end, and the error in which it ended, against
// the faults that touched it.
func (c *checker) judge(begin, end entry) {
	around := touching(c.strikes, begin.At, end.At)
	until := begin.At + int64(c.within)
	for _, f := range around {
		until = max(until, max(begin.At, f.from)+int64(f.within))
	}
	if end.At > until {
		c.breaks(slow, "%v late, %v after it was %s, touched by %v: %v",
			time.Duration(end.At-until), time.Duration(end.At-begin.At), begin.What, around, end)
	}
	if !end.OK && !explained(end.Code, around) {
		c.breaks(failing, "touched by %v: %v", around, end)
	}
}

// explained reports whether faults are the reason of an error: one that can cause it; or as many as there are attempts, each
// of which can cost one.
func explained(code string, around []*strike) bool {
	costly := 0
	for _, f := range around {
		if slices.Contains(f.codes, code) {
			return true
		}
		if len(f.codes) > 0 {
			costly++
		}
	}
	return code == "MAX_RETRY_EXCEEDED" && costly >= attempts
}

// attempts is how many each job has.
const attempts = 3

// callSummary is the part of the figures that is about calls.
func (c *checker) callSummary() string {
	var codes []string
	for _, code := range slices.Sorted(maps.Keys(c.callErrors)) {
		codes = append(codes, fmt.Sprintf("%s %d", code, c.callErrors[code]))
	}
	return fmt.Sprintf("%d calls, %d done, failed [%s], %d refused and made again, longest %v (%s)",
		c.calls, c.callsDone, strings.Join(codes, ", "), c.callsRefused, c.longestCall.Round(time.Millisecond), c.longestCallOf)
}
