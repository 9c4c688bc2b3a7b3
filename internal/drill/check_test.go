package drill

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// What can be broken.
const (
	unanswered = "an utterance without a terminal message"
	twice      = "an utterance with more than one terminal message"
	disorder   = "terminal messages out of order"
	stranger   = "a terminal message of nothing that was said"
	duplicate  = "a durable message that came again although it had arrived"
	gap        = "a gap without cause"
	ending     = "a session that was lost, or counted wrongly"
	garbled    = "a result of other sound than was said"
	mumbled    = "speech that is not what was spoken"
	recut      = "an utterance that was said to be cut twice, too late, otherwise, or not at all"
	slow       = "a terminal message that came too late"
	failing    = "an error without cause"
	crowded    = "a node that worked on more than its slots"
	overdrawn  = "a node that was given more than its slots"
	overdue    = "a write that took effect after nobody waited for it any more"
	superseded = "a write that took effect after another had taken over"
	unheld     = "a result from an attempt that its node never had"
	split      = "one attempt that two nodes took"
	deserted   = "a node that did not come back, or left before it was asked to"
	stuck      = "messages that stay in an inbox"
	deadLetter = "dead letters that are not exactly the poison"
	leftover   = "keys that remain"
	unended    = "a call that did not end"
	reborn     = "a call that became more than one job, or ended more than once"
	relapsed   = "a job that ended, and was found to have ended otherwise"
	forgot     = "a job that was accepted and then forgotten"
	together   = "no result came from a node of another instance, which proves nothing"
)

// violation is a broken promise, with the evidence.
type violation struct {
	kind     string
	evidence string
}

// figures are what a drill measured.
type figures struct {
	talks, utterances, results  int // talks are sessions
	errors                      map[string]int
	reconnects, resumes         int
	unrecovered                 int
	longest                     time.Duration // from said to the terminal message
	longestOf                   string
	jobs, attempts              int // that nodes took
	mostHeld, oversold, refused int
	dropped                     int // results that were not accepted
	speeches, spoken            int // results that speech was to follow; and those that all of it followed
	calls, callsDone            int
	callErrors                  map[string]int
	callsRefused                int           // and made again
	longestCall                 time.Duration // from called to the end
	longestCallOf               string
	placed, crossed             int // results of which it is known where both were connected; and of those, not to the same instance
}

// evidence is what was seen.
type evidence struct {
	sessions, nodes []entry
	callers         []entry
	strikes         []*strike
	effects         []effect      // that should not have been
	routes          [2]routes     // of sessions, and of nodes
	apart           bool          // some results must come from a node of another instance
	within          time.Duration // an utterance that no fault touches has its terminal message so soon, and a call its end
}

// checker collects what is broken.
type checker struct {
	evidence
	figures
	broken []violation
}

func (c *checker) breaks(kind, format string, args ...any) {
	c.broken = append(c.broken, violation{kind, fmt.Sprintf(format, args...)})
}

// check holds what everybody saw against what was promised.
func check(e evidence) *checker {
	c := &checker{evidence: e}
	c.errors = make(map[string]int)
	byTime := func(a, b entry) int { return cmp.Compare(a.At, b.At) }
	slices.SortStableFunc(c.sessions, byTime)
	slices.SortStableFunc(c.nodes, byTime)
	slices.SortStableFunc(c.callers, byTime)
	had := c.checkNodes()
	for id, entries := range grouped(c.sessions) {
		c.talks++
		c.checkSession(id, entries, had)
	}
	c.checkCallers(had)
	c.countCrossed()
	for _, w := range e.effects {
		if w.kind == overdue || !c.lossAround(w.at) {
			c.breaks(w.kind, "%s", w.evidence)
		}
	}
	for _, s := range e.strikes {
		if s.caughtUpLate != nil {
			c.breaks(stuck, "after %v: %v", s, s.caughtUpLate)
		}
		if s.backLate != nil {
			c.breaks(deserted, "after %v: %v", s, s.backLate)
		}
	}
	return c
}

// grouped is entries by who noted them.
func grouped(all []entry) map[string][]entry {
	by := make(map[string][]entry)
	for _, e := range all {
		by[e.Who] = append(by[e.Who], e)
	}
	return by
}

// attempt names one.
type attempt struct {
	job    string
	number int
}

// taker is a node that took an attempt, and when it had done it.
type taker struct {
	node string
	done int64
}

// forgotten reports whether nobody has to remember the job any more: asked again, it is made anew.
func (t taker) forgotten(at int64) bool { return t.done > 0 && at-t.done > int64(recordKept) }

// holding is a node that had an attempt, and whether it finished it.
type holding map[attempt]map[string]bool

// checkNodes looks at what the nodes saw, and returns who had what.
func (c *checker) checkNodes() holding {
	had := make(holding)
	takers := make(map[attempt]taker)
	jobs := make(map[string]bool)
	for _, e := range c.nodes {
		key := attempt{e.Job, e.Attempt}
		switch e.What {
		case begun:
			c.attempts++
			jobs[e.Job] = true
			c.mostHeld = max(c.mostHeld, e.Held)
			if had[key] == nil {
				had[key] = make(map[string]bool)
			}
			had[key][e.Who] = had[key][e.Who] || false
			if other, ok := takers[key]; ok && other.node != e.Who && !other.forgotten(e.At) && !c.lossAround(e.At) {
				c.breaks(split, "%s had attempt %d of %s before: %v", other.node, e.Attempt, e.Job, e)
			}
			takers[key] = taker{node: e.Who}
		case ended:
			if had[key] != nil && e.OK {
				had[key][e.Who] = true
			}
			switch {
			case e.OK:
				takers[key] = taker{e.Who, e.At}
			case takers[key].node == e.Who:
				delete(takers, key) // it gave the attempt back: NODE_BUSY goes to another
			}
		case cancelled, rejected:
			if takers[key].node == e.Who {
				delete(takers, key)
			}
			if e.What == rejected {
				c.refused++
			}
		case taken:
			if !e.OK {
				c.dropped++
			}
		case oversold:
			c.oversold++
			if !c.lossAround(e.At) {
				c.breaks(overdrawn, "%v", e)
			}
		case left:
			if !e.OK {
				c.breaks(deserted, "%v", e)
			}
		}
	}
	c.jobs = len(jobs)
	for who, entries := range grouped(c.nodes) {
		slots := 0
		for _, e := range entries {
			slots = max(slots, e.Slots)
			if e.What == begun && slots > 0 && e.Held > slots {
				c.breaks(crowded, "%s has %d slots: %v", who, slots, e)
			}
		}
	}
	return had
}

// lossAround reports whether the store may have forgotten its last moment shortly before.
func (c *checker) lossAround(at int64) bool {
	return slices.ContainsFunc(touching(c.strikes, at, at), func(s *strike) bool { return s.loses })
}
