package drill

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestTheCheckerFindsOfCalls every kind of violation, and none where there is none.
func TestTheCheckerFindsOfCalls(t *testing.T) {
	t.Parallel()
	outage := fault{name: "outage", within: 30 * time.Second, codes: down, loses: true}
	gone := entry{Job: job(1), Code: "NOT_FOUND"}
	end := entry{What: terminal, Job: job(1), Attempt: 1, Node: "n", OK: true}
	as := func(e entry, what string) entry {
		e.What = what
		return e
	}
	for name, c := range map[string]struct {
		tell func(s *story)
		want []string
	}{
		"nothing": {func(s *story) {
			s.calls(1)
			s.does(1)
			s.done(1)
		}, nil},
		"a call that was refused at first": {func(s *story) {
			s.caller(1, entry{What: called})
			s.callers = append(s.callers, entry{At: s.clock, Who: "c", What: refused, Code: down[0]})
			s.caller(1, entry{What: accepted, Job: job(1), Attempt: 1, Node: "n"})
			s.does(1)
			s.done(1)
		}, nil},
		"no end": {func(s *story) {
			s.calls(1)
			s.does(1)
		}, []string{unended}},
		"no answer": {func(s *story) { s.caller(1, entry{What: called}) }, []string{unended}},
		"two ends": {func(s *story) {
			s.calls(1)
			s.does(1)
			s.done(1)
			s.caller(1, end)
		}, []string{reborn}},
		"an end of nothing that was called for": {func(s *story) {
			s.does(1)
			s.caller(1, end)
		}, []string{stranger}},
		"two jobs": {func(s *story) {
			s.calls(1)
			s.caller(1, entry{What: accepted, Job: job(2), Attempt: 1, Node: "n"})
			s.does(1)
			s.done(1)
		}, []string{reborn}},
		"the end of another job": {func(s *story) {
			s.calls(1)
			s.does(2)
			s.caller(1, entry{What: terminal, Job: job(2), Attempt: 1, Node: "n", OK: true})
		}, []string{reborn}},
		"another end later": {func(s *story) {
			s.calls(1)
			s.does(1)
			s.caller(1, end)
			s.caller(1, entry{What: looked, Job: job(1), Attempt: 1, Node: "n", Code: "MAX_RETRY_EXCEEDED"})
		}, []string{relapsed}},
		"another result later": {func(s *story) {
			s.calls(1)
			s.does(1)
			s.caller(1, end)
			s.caller(1, entry{What: looked, Job: job(1), Attempt: 2, Node: "m", OK: true})
		}, []string{relapsed}},
		"no end any more": {func(s *story) {
			s.calls(1)
			s.does(1)
			s.caller(1, end)
			s.caller(1, entry{What: looked, Job: job(1), Attempt: 1, Node: "n"})
		}, []string{relapsed}},
		"another end later, and the store may have forgotten the first": {func(s *story) {
			s.calls(1)
			s.does(1)
			s.struck(outage, func() { s.caller(1, end) })
			s.caller(1, entry{What: looked, Job: job(1), Attempt: 2, Node: "m", OK: true})
		}, nil},
		"forgotten before its end": {func(s *story) {
			s.calls(1)
			s.caller(1, as(gone, vanished))
			s.does(1)
			s.done(1)
		}, []string{forgot}},
		"forgotten before its end by a store that may": {func(s *story) {
			s.calls(1)
			s.struck(outage, func() { s.caller(1, as(gone, vanished)) })
			s.does(1)
			s.done(1)
		}, nil},
		"forgotten soon after its end": {func(s *story) {
			s.calls(1)
			s.does(1)
			s.caller(1, end)
			s.tick(remembered - time.Second)
			s.caller(1, as(gone, looked))
		}, []string{forgot}},
		"forgotten when its time was over": {func(s *story) {
			s.calls(1)
			s.does(1)
			s.caller(1, end)
			s.tick(remembered)
			s.caller(1, as(gone, looked))
		}, nil},
		"a result of nobody": {func(s *story) {
			s.calls(1)
			s.done(1)
		}, []string{unheld}},
		"a result that was made for another attempt": {func(s *story) {
			s.calls(1)
			s.does(1)
			e := end
			e.Code = "the node made it for attempt 2 of j1"
			s.caller(1, e)
		}, []string{unheld}},
		"too late": {func(s *story) {
			s.calls(1)
			s.does(1)
			s.tick(usual)
			s.done(1)
		}, []string{slow}},
		"late, and a fault says why": {func(s *story) {
			s.calls(1)
			s.struck(outage, func() { s.tick(2 * usual) })
			s.does(1)
			s.done(1)
		}, nil},
		"an error": {func(s *story) {
			s.calls(1)
			s.caller(1, entry{What: terminal, Job: job(1), Code: "DEADLINE_EXCEEDED"})
		}, []string{failing}},
		"an error that a fault explains": {func(s *story) {
			s.calls(1)
			s.struck(outage, func() { s.caller(1, entry{What: terminal, Job: job(1), Code: "DEADLINE_EXCEEDED"}) })
		}, nil},
		"an error that the fault does not explain": {func(s *story) {
			s.calls(1)
			s.struck(outage, func() { s.caller(1, entry{What: terminal, Job: job(1), Code: "NODE_LOST"}) })
		}, []string{failing}},
		"a refusal for good": {func(s *story) {
			s.caller(1, entry{What: called})
			s.caller(1, entry{What: terminal, Code: "REQUEST_MISMATCH"})
		}, []string{failing}},
	} {
		s := begins()
		c.tell(s)
		slices.Sort(c.want)
		if diff := cmp.Diff(c.want, s.ends(1).kinds()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestFiguresOfCalls are what the summary says.
func TestFiguresOfCalls(t *testing.T) {
	t.Parallel()
	s := begins()
	s.calls(1)
	s.does(1)
	s.done(1)
	s.struck(fault{within: time.Minute, codes: down}, func() {
		s.caller(2, entry{What: called})
		s.callers = append(s.callers, entry{At: s.clock, Who: "c", What: refused, Code: down[0]})
		s.tick(time.Second)
		s.caller(2, entry{What: terminal, Job: job(2), Code: down[1]})
	})
	got := check(s.ends(1).evidence)
	const want = "2 calls, 1 done, failed [DEADLINE_EXCEEDED 1], 1 refused and made again, longest 1.001s (r2)"
	if line := got.callSummary(); line != want || len(got.broken) > 0 {
		t.Errorf("%s, %v; want %s", line, got.broken, want)
	}
}
