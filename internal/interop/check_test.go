package interop

import (
	"fmt"
	"testing"
	"time"
)

// expectation is what may differ between cases. Everything else holds for each.
type expectation struct {
	errors    map[int]string // utterances that end with an error, by index
	mayBeCut  bool           // a stall may end an utterance early; its audio comes back as further parts
	cut       int            // the stall certainly ends this one early, so that it has two parts; 0: none
	forgetful bool           // the session does not have the audio any more that it would compare a part with
}

// check waits for the end of a session and compares what it printed with what was promised.
func check(t *testing.T, p *process, want expectation) {
	t.Helper()
	ended := p.await("ended", nil)
	select {
	case <-p.Exited:
		if p.ExitErr != nil {
			t.Errorf("%s: %v", p.name, p.ExitErr)
		}
	case <-time.After(patience):
		t.Errorf("%s does not exit", p.name)
	}
	events, _ := p.all()
	var spoken, terminals []event
	var limit int64
	for _, e := range events {
		switch e.Event {
		case "started":
			limit = e.Limits.ResultTimeoutMS
		case "spoken":
			spoken = append(spoken, e)
		case "terminal":
			terminals = append(terminals, e)
		case "resumed":
			if !e.Recovered {
				t.Errorf("%s: a resume lost messages: %s", p.name, e.line)
			}
		case "problem", "warning", "refused", "unreadable":
			t.Errorf("%s: %s", p.name, e.line)
		}
	}
	slowest := checkTerminals(t, p.name, terminals, limit, want)
	if ended.Utterances != len(terminals) {
		t.Errorf("%s: %d utterances in session_ended, %d terminal messages", p.name, ended.Utterances, len(terminals))
	}
	if err := cover(spoken, terminals, want); err != nil {
		t.Errorf("%s: %v", p.name, err)
	}
	t.Logf("%s: %d utterances, %d terminal messages, the slowest %d ms after its commit or the last resume (limit %d ms), the session %d ms",
		p.name, len(spoken), len(terminals), slowest, limit, ended.AtMS)
}

// checkTerminals: once each, in order, in time, with the audio that was sent. It returns the longest time.
func checkTerminals(t *testing.T, name string, terminals []event, limit int64, want expectation) int64 {
	t.Helper()
	var slowest int64
	for n, e := range terminals {
		if e.Index != n || e.Seq != n+1 || e.Repeated {
			t.Errorf("%s: terminal message %d is not the next: %s", name, n, e.line)
		}
		switch expected, mayFail := want.errors[e.Index]; {
		case mayFail:
			if e.Type != "error" || e.Error != expected {
				t.Errorf("%s: utterance %d should end with %s: %s", name, e.Index, expected, e.line)
			}
		case e.Type != "result":
			t.Errorf("%s: utterance %d ended with an error: %s", name, e.Index, e.line)
		case want.forgetful && e.Sent == nil: // what was spoken is compared in cover
		case !e.Got.equal(e.Sent):
			t.Errorf("%s: the node got other audio than was sent for utterance %d: %s", name, e.Index, e.line)
		}
		if e.TookMS == nil || *e.TookMS > limit {
			t.Errorf("%s: utterance %d not within %d ms: %s", name, e.Index, limit, e.line)
			continue
		}
		slowest = max(slowest, *e.TookMS)
	}
	return slowest
}

// cover compares the audio frames of the terminal messages with those that were spoken: each in exactly one, in order, under its name.
func cover(spoken, terminals []event, want expectation) error {
	next := 0
	for _, s := range spoken {
		from := s.FirstSeq
		var parts []event
		for from <= s.LastSeq {
			if next == len(terminals) {
				return fmt.Errorf("the frames from %d of utterance %d are in no terminal message", from, s.Utterance)
			}
			e := terminals[next]
			next++
			if e.FirstSeq != from || e.LastSeq > s.LastSeq {
				return fmt.Errorf("utterance %d has the frames %d to %d; from %d on comes: %s", s.Utterance, s.FirstSeq, s.LastSeq, from, e.line)
			}
			if e.UtteranceID != s.UtteranceID {
				return fmt.Errorf("a part of utterance %d has another name: %s", s.Utterance, e.line)
			}
			parts = append(parts, e)
			from = e.LastSeq + 1
		}
		if err := checkParts(s, parts, want); err != nil {
			return err
		}
	}
	if next < len(terminals) {
		return fmt.Errorf("nothing was spoken for: %s", terminals[next].line)
	}
	return nil
}

// checkParts: one, or the further ones say whose they are.
func checkParts(s event, parts []event, want expectation) error {
	if mustBeCut := want.cut > 0 && s.Utterance == want.cut; !want.mayBeCut && len(parts) > 1 != mustBeCut {
		return fmt.Errorf("utterance %d has %d parts", s.Utterance, len(parts))
	}
	if len(parts) == 1 && parts[0].Type == "result" && !parts[0].Got.equal(s.Sent) {
		return fmt.Errorf("the node got other audio than was spoken in utterance %d: %s", s.Utterance, parts[0].line)
	}
	for n, part := range parts {
		switch {
		case n == 0 && part.Continues != nil:
			return fmt.Errorf("the first part of utterance %d continues another: %s", s.Utterance, part.line)
		case n > 0 && s.UtteranceID != "" && (part.Continues == nil || *part.Continues != parts[0].Index):
			return fmt.Errorf("a further part of utterance %d does not continue %d: %s", s.Utterance, parts[0].Index, part.line)
		}
	}
	return nil
}
