package interop

import (
	"fmt"
	"testing"
)

// expectation is what differs between cases. All other checks are the same for each.
type expectation struct {
	errors     map[int]string // utterances that end with an error, by index
	mayBeCut   bool           // a stall may end an utterance early; its audio arrives in further parts
	dropsAudio bool           // the session no longer has the audio to compare a part with
}

// check waits for the end of a session and checks what it printed.
func check(t *testing.T, p *program, want expectation) {
	t.Helper()
	ended := p.waitEvent("ended", nil)
	if err := p.WaitExit(waitTimeout); err != nil {
		t.Errorf("%s: %v", p.name, err)
	}
	events, _ := p.eventsSoFar()
	var sent, terminals []event
	var limit int64
	for _, e := range events {
		switch e.Event {
		case "started":
			limit = e.Limits.ResultTimeoutMS
		case "utterance_sent":
			sent = append(sent, e)
		case "terminal":
			terminals = append(terminals, e)
		case "resumed":
			if !e.Recovered {
				t.Errorf("%s: a resume lost messages: %s", p.name, e.line)
			}
		case "error_received", "warning", "refused", unreadable:
			t.Errorf("%s: %s", p.name, e.line)
		}
	}
	slowest := checkTerminals(t, p.name, terminals, limit, want)
	if ended.Utterances != len(terminals) {
		t.Errorf("%s: %d utterances in session_ended, %d terminal messages", p.name, ended.Utterances, len(terminals))
	}
	if err := checkCoverage(sent, terminals, want); err != nil {
		t.Errorf("%s: %v", p.name, err)
	}
	t.Logf("%s: %d utterances, %d terminal messages, the slowest %d ms after its commit or the last resume (limit %d ms), the session %d ms",
		p.name, len(sent), len(terminals), slowest, limit, ended.AtMS)
}

// checkTerminals checks that terminal messages arrive once each, in order, in time, and with the audio that was sent. It
// returns the longest time.
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
		case want.dropsAudio && e.Sent == nil: // checkCoverage compares the audio that was sent
		case !e.Got.equal(e.Sent):
			t.Errorf("%s: the node received other audio than was sent for utterance %d: %s", name, e.Index, e.line)
		}
		if e.TookMS == nil || *e.TookMS > limit {
			t.Errorf("%s: utterance %d not within %d ms: %s", name, e.Index, limit, e.line)
			continue
		}
		slowest = max(slowest, *e.TookMS)
	}
	return slowest
}

// checkCoverage compares the audio frames of the terminal messages with those that were sent: each in exactly one message,
// in order, under its utterance id.
func checkCoverage(sent, terminals []event, want expectation) error {
	next := 0
	for _, u := range sent {
		from := u.FirstSeq
		var parts []event
		for from <= u.LastSeq {
			if next == len(terminals) {
				return fmt.Errorf("the frames from %d of utterance %d are in no terminal message", from, u.Utterance)
			}
			e := terminals[next]
			next++
			if e.FirstSeq != from || e.LastSeq > u.LastSeq {
				return fmt.Errorf("utterance %d has the frames %d to %d; the next message should start at %d: %s", u.Utterance, u.FirstSeq, u.LastSeq, from, e.line)
			}
			if e.UtteranceID != u.UtteranceID {
				return fmt.Errorf("a part of utterance %d has another id: %s", u.Utterance, e.line)
			}
			parts = append(parts, e)
			from = e.LastSeq + 1
		}
		if err := checkParts(u, parts, want); err != nil {
			return err
		}
	}
	if next < len(terminals) {
		return fmt.Errorf("a terminal message for no utterance: %s", terminals[next].line)
	}
	return nil
}

// checkParts checks that an utterance has one part, or that its further parts refer to the first.
func checkParts(u event, parts []event, want expectation) error {
	if !want.mayBeCut && len(parts) > 1 {
		return fmt.Errorf("utterance %d has %d parts", u.Utterance, len(parts))
	}
	if len(parts) == 1 && parts[0].Type == "result" && !parts[0].Got.equal(u.Sent) {
		return fmt.Errorf("the node received other audio than was sent in utterance %d: %s", u.Utterance, parts[0].line)
	}
	for n, part := range parts {
		switch {
		case n == 0 && part.Continues != nil:
			return fmt.Errorf("the first part of utterance %d continues another: %s", u.Utterance, part.line)
		case n > 0 && u.UtteranceID != "" && (part.Continues == nil || *part.Continues != parts[0].Index):
			return fmt.Errorf("a further part of utterance %d does not continue %d: %s", u.Utterance, parts[0].Index, part.line)
		}
	}
	return nil
}
