package drill

import (
	"slices"
	"time"
)

// talk is what is known of one session.
type talk struct {
	*checker
	id       string
	said     []entry // in order
	ends     map[string][]entry
	next     int64 // the index that comes next
	excused  bool  // a gap before the next terminal message was announced
	finished bool
}

// checkSession holds what a session saw against what it said.
func (c *checker) checkSession(id string, entries []entry, had holding) {
	t := &talk{checker: c, id: id, ends: make(map[string][]entry)}
	requests := make(map[string]bool)
	for _, e := range entries {
		if e.What == said {
			t.said = append(t.said, e)
			requests[e.Request] = true
		}
	}
	c.utterances += len(t.said)
	for _, e := range entries {
		switch e.What {
		case terminal:
			t.terminal(e, requests, had)
		case reconnecting:
			c.reconnects++
		case resumed:
			c.resumes++
			if !e.Recovered {
				c.unrecovered++
				t.excused = true
				if !c.lossAround(e.At) {
					c.breaks(gap, "the store lost nothing, and yet: %v", e)
				}
			}
		case over:
			t.finished = true
			if e.Index != int64(len(t.said)) {
				c.breaks(ending, "%s said %d utterances and was told: %v", id, len(t.said), e)
			}
		case lost:
			c.breaks(ending, "%v", e)
		}
	}
	if !t.finished && !slices.ContainsFunc(entries, func(e entry) bool { return e.What == lost }) {
		c.breaks(ending, "%s was never told that it is over; the last it saw: %v", id, entries[len(entries)-1])
	}
	t.answers()
	t.repeats(entries)
	t.checkSpeech(entries)
	t.checkCuts(entries)
}

// terminal takes in how an utterance ended.
func (t *talk) terminal(e entry, requests map[string]bool, had holding) {
	if e.OK {
		t.results++
	} else {
		t.errors[e.Code]++
	}
	if !requests[e.Request] {
		t.breaks(stranger, "%v", e)
	}
	t.ends[e.Request] = append(t.ends[e.Request], e)
	switch {
	case e.Index < t.next:
		t.breaks(disorder, "%d was expected next: %v", t.next, e)
	case e.Index > t.next && !t.excused:
		t.breaks(gap, "%d was expected next: %v", t.next, e)
	}
	t.next, t.excused = max(t.next, e.Index+1), false
	if int(e.Index) < len(t.said) && t.said[e.Index].Request != e.Request && requests[e.Request] {
		t.breaks(disorder, "utterance %d was %s: %v", e.Index, t.said[e.Index].Request, e)
	}
	t.checkResult(e, had)
}

// answers looks for exactly one terminal message of each utterance, in time.
func (t *talk) answers() {
	for _, s := range t.said {
		ends := t.ends[s.Request]
		if len(ends) == 0 {
			t.breaks(unanswered, "%v", s)
			continue
		}
		if len(ends) > 1 {
			t.breaks(twice, "%v ended in %v", s, ends)
		}
		e := ends[0]
		if e.OK && e.Bytes != s.Bytes {
			t.breaks(garbled, "%v became %v", s, e)
		}
		took := time.Duration(e.At - s.At)
		if took > t.longest {
			t.longest, t.longestOf = took, s.Request
		}
		t.judge(s, e)
	}
}

// repeats looks for durable messages that came over the wire although they had arrived. A session that was told of a gap
// starts from where the scheduler is.
func (t *talk) repeats(entries []entry) {
	floor := make(map[int]int64) // by connection: what had arrived
	for _, e := range entries {
		switch e.What {
		case asked:
			floor[e.Conn] = e.Seq
		case rewound:
			floor[e.Conn] = min(floor[e.Conn], e.Seq)
		case wired:
			if e.Seq <= floor[e.Conn] {
				t.breaks(duplicate, "%s had %d: %v", t.id, floor[e.Conn], e)
			}
			floor[e.Conn] = max(floor[e.Conn], e.Seq)
		}
	}
}
