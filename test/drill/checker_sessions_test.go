package drill

import (
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
)

// sessionChecker checks one session.
type sessionChecker struct {
	*checker
	id           string
	sent         []journal.Entry // utterances, in order
	terminals    map[string][]journal.Entry
	next         int64 // the index of the next terminal message
	gapAnnounced bool  // session_resumed announced a gap before the next terminal message
	finished     bool
}

// checkSession checks the journal of a session.
func (c *checker) checkSession(id string, entries []journal.Entry, had attemptHolders) {
	s := &sessionChecker{checker: c, id: id, terminals: make(map[string][]journal.Entry)}
	requests := make(map[string]bool)
	for _, e := range entries {
		if e.Kind == journal.UtteranceSent {
			s.sent = append(s.sent, e)
			requests[e.Request] = true
		}
	}
	c.utterances += len(s.sent)
	for _, e := range entries {
		switch e.Kind {
		case journal.Terminal:
			s.checkTerminal(e, requests, had)
		case journal.Reconnecting:
			c.reconnects++
		case journal.Resumed:
			c.resumes++
			if !e.Recovered {
				c.unrecovered++
				s.gapAnnounced = true
				if !c.lossAround(e.At) {
					c.addViolation(unexplainedGap, "no fault explains the loss: %v", e)
				}
			}
		case journal.SessionEnded:
			s.finished = true
			if e.Index != int64(len(s.sent)) {
				c.addViolation(badSessionEnd, "%s sent %d utterances and received: %v", id, len(s.sent), e)
			}
		case journal.SessionLost:
			c.addViolation(badSessionEnd, "%v", e)
		}
	}
	if !s.finished && !slices.ContainsFunc(entries, func(e journal.Entry) bool { return e.Kind == journal.SessionLost }) {
		c.addViolation(badSessionEnd, "%s did not end; its last entry: %v", id, entries[len(entries)-1])
	}
	s.checkAnswers()
	s.checkRedelivery(entries)
	s.checkSpeech(entries)
	s.checkCommits(entries)
}

// checkTerminal checks a terminal message when it arrives.
func (s *sessionChecker) checkTerminal(e journal.Entry, requests map[string]bool, had attemptHolders) {
	if e.OK {
		s.results++
	} else {
		s.errors[e.Code]++
	}
	if !requests[e.Request] {
		s.addViolation(unknownTerminal, "%v", e)
	}
	s.terminals[e.Request] = append(s.terminals[e.Request], e)
	switch {
	case e.Index < s.next:
		s.addViolation(outOfOrder, "expected %d next: %v", s.next, e)
	case e.Index > s.next && !s.gapAnnounced:
		s.addViolation(unexplainedGap, "expected %d next: %v", s.next, e)
	}
	s.next, s.gapAnnounced = max(s.next, e.Index+1), false
	if int(e.Index) < len(s.sent) && s.sent[e.Index].Request != e.Request && requests[e.Request] {
		s.addViolation(outOfOrder, "utterance %d was %s: %v", e.Index, s.sent[e.Index].Request, e)
	}
	s.checkResult(e, had)
}

// checkAnswers checks that each utterance has exactly one terminal message, in time.
func (s *sessionChecker) checkAnswers() {
	for _, u := range s.sent {
		ends := s.terminals[u.Request]
		if len(ends) == 0 {
			s.addViolation(unanswered, "%v", u)
			continue
		}
		if len(ends) > 1 {
			s.addViolation(duplicateTerminal, "%v ended in %v", u, ends)
		}
		e := ends[0]
		if e.OK && e.Bytes != u.Bytes {
			s.addViolation(wrongAudio, "%v became %v", u, e)
		}
		took := time.Duration(e.At - u.At)
		if took > s.longest {
			s.longest, s.longestRequest = took, u.Request
		}
		s.checkLimits(u, e)
	}
}

// checkRedelivery finds durable messages that were sent although they had arrived. A session with an announced gap
// continues from where the scheduler is.
func (s *sessionChecker) checkRedelivery(entries []journal.Entry) {
	arrived := make(map[int]int64) // by connection: the last message that had arrived
	for _, e := range entries {
		switch e.Kind {
		case journal.ResumeSent:
			arrived[e.Conn] = e.Seq
		case journal.GapReceived:
			arrived[e.Conn] = min(arrived[e.Conn], e.Seq)
		case journal.DurableReceived:
			if e.Seq <= arrived[e.Conn] {
				s.addViolation(redelivered, "%s had received %d: %v", s.id, arrived[e.Conn], e)
			}
			arrived[e.Conn] = max(arrived[e.Conn], e.Seq)
		}
	}
}

// checkCommits checks the utterance_committed messages: one over each connection, before the terminal message, always the
// same, and at least one.
func (s *sessionChecker) checkCommits(entries []journal.Entry) {
	type connIndex struct {
		conn  int
		index int64
	}
	committed, terminated := make(map[connIndex]bool), make(map[connIndex]bool)
	commits := make(map[int64]journal.Entry)
	reconnected := false // a connection was lost at any time
	for _, e := range entries {
		key := connIndex{e.Conn, e.Index}
		switch e.Kind {
		case journal.CommitReceived:
			if committed[key] || terminated[key] {
				s.addViolation(wrongCommit, "committed %v, terminal %v over the same connection before: %v", committed[key], terminated[key], e)
			}
			committed[key] = true
			if first, known := commits[e.Index]; known && (first.Job != e.Job || first.Seq != e.Seq || first.Bytes != e.Bytes) && !s.lossAround(e.At) {
				s.addViolation(wrongCommit, "%v became %v", first, e)
			}
			commits[e.Index] = e
		case journal.DurableReceived:
			terminated[key] = true
		case journal.Reconnecting:
			reconnected = true
		case journal.Terminal:
			if _, known := commits[e.Index]; !known && !reconnected {
				s.addViolation(wrongCommit, "not committed: %v", e)
			}
		}
	}
}

// checkSpeech checks that the speech of each result arrived completely. A fault may cut it short.
func (s *sessionChecker) checkSpeech(entries []journal.Entry) {
	type speechState struct {
		bytes     int64
		next      int64
		ended     bool
		announced bool
	}
	states := make(map[attempt]*speechState)
	stateOf := func(e journal.Entry) *speechState {
		key := attempt{e.Job, e.Attempt}
		if states[key] == nil {
			states[key] = &speechState{}
		}
		return states[key]
	}
	for _, e := range entries {
		switch {
		case e.Kind == journal.Terminal && e.Speech:
			stateOf(e).announced = true
		case e.Kind == journal.SpeechReceived:
			v := stateOf(e)
			if e.Code != "" || v.ended || e.Index < v.next || !v.announced {
				s.addViolation(wrongSpeech, "%v, after %+v", e, *v)
			}
			v.bytes, v.next, v.ended = v.bytes+e.Bytes, e.Index+1, v.ended || e.OK
		}
	}
	wantsSpeech := false
	for _, e := range entries {
		wantsSpeech = wantsSpeech || e.Kind == journal.SessionStarted && e.Speech
		if e.Kind != journal.Terminal || !e.Speech {
			if wantsSpeech && e.Kind == journal.Terminal && e.OK && len(overlapping(s.injections, e.At-int64(s.answerLimit), e.At)) == 0 {
				s.addViolation(wrongSpeech, "the session asked for speech, and the result announces none: %v", e)
			}
			continue
		}
		s.speechExpected++
		v := stateOf(e)
		if v.ended && v.bytes == clustertest.SpeechSize {
			s.speechComplete++
			continue
		}
		if len(overlapping(s.injections, e.At, e.At+int64(s.answerLimit))) == 0 {
			s.addViolation(wrongSpeech, "%d of %d bytes arrived: %v", v.bytes, clustertest.SpeechSize, e)
		}
	}
}
