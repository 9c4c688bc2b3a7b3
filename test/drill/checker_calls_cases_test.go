package drill

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
)

func TestCheckerFindsCallViolations(t *testing.T) {
	t.Parallel()
	outage := fault{name: "outage", recoveryLimit: 30 * time.Second, allowedCodes: storeDownCodes, mayLoseWrites: true}
	notFound := journal.Entry{Job: jobID(1), Code: "NOT_FOUND"}
	end := journal.Entry{Kind: journal.Terminal, Job: jobID(1), Attempt: 1, Node: "n", OK: true}
	withKind := func(e journal.Entry, kind string) journal.Entry {
		e.Kind = kind
		return e
	}
	for name, c := range map[string]struct {
		build func(s *scenario)
		want  []string
	}{
		"no violation": {func(s *scenario) {
			s.makeCall(1)
			s.runJob(1)
			s.finishCall(1)
		}, nil},
		"a call that was refused at first": {func(s *scenario) {
			s.addCaller(1, journal.Entry{Kind: journal.CallSent})
			s.callers = append(s.callers, journal.Entry{At: s.clock, Source: "c", Kind: journal.CallRefused, Code: storeDownCodes[0]})
			s.addCaller(1, journal.Entry{Kind: journal.CallAccepted, Job: jobID(1), Attempt: 1, Node: "n"})
			s.runJob(1)
			s.finishCall(1)
		}, nil},
		"no outcome": {func(s *scenario) {
			s.makeCall(1)
			s.runJob(1)
		}, []string{unfinishedCall}},
		"no answer": {func(s *scenario) { s.addCaller(1, journal.Entry{Kind: journal.CallSent}) }, []string{unfinishedCall}},
		"two outcomes": {func(s *scenario) {
			s.makeCall(1)
			s.runJob(1)
			s.finishCall(1)
			s.addCaller(1, end)
		}, []string{duplicateCall}},
		"an outcome without a call": {func(s *scenario) {
			s.runJob(1)
			s.addCaller(1, end)
		}, []string{unknownTerminal}},
		"two jobs": {func(s *scenario) {
			s.makeCall(1)
			s.addCaller(1, journal.Entry{Kind: journal.CallAccepted, Job: jobID(2), Attempt: 1, Node: "n"})
			s.runJob(1)
			s.finishCall(1)
		}, []string{duplicateCall}},
		"the outcome of another job": {func(s *scenario) {
			s.makeCall(1)
			s.runJob(2)
			s.addCaller(1, journal.Entry{Kind: journal.Terminal, Job: jobID(2), Attempt: 1, Node: "n", OK: true})
		}, []string{duplicateCall}},
		"another outcome later": {func(s *scenario) {
			s.makeCall(1)
			s.runJob(1)
			s.addCaller(1, end)
			s.addCaller(1, journal.Entry{Kind: journal.OutcomeReread, Job: jobID(1), Attempt: 1, Node: "n", Code: "MAX_RETRY_EXCEEDED"})
		}, []string{changedOutcome}},
		"another result later": {func(s *scenario) {
			s.makeCall(1)
			s.runJob(1)
			s.addCaller(1, end)
			s.addCaller(1, journal.Entry{Kind: journal.OutcomeReread, Job: jobID(1), Attempt: 2, Node: "m", OK: true})
		}, []string{changedOutcome}},
		"no outcome later": {func(s *scenario) {
			s.makeCall(1)
			s.runJob(1)
			s.addCaller(1, end)
			s.addCaller(1, journal.Entry{Kind: journal.OutcomeReread, Job: jobID(1), Attempt: 1, Node: "n"})
		}, []string{changedOutcome}},
		"another outcome later, after the store lost writes": {func(s *scenario) {
			s.makeCall(1)
			s.runJob(1)
			s.duringFault(outage, func() { s.addCaller(1, end) })
			s.addCaller(1, journal.Entry{Kind: journal.OutcomeReread, Job: jobID(1), Attempt: 2, Node: "m", OK: true})
		}, nil},
		"a job lost before its end": {func(s *scenario) {
			s.makeCall(1)
			s.addCaller(1, withKind(notFound, journal.JobNotFound))
			s.runJob(1)
			s.finishCall(1)
		}, []string{lostJob}},
		"a job lost before its end, after the store lost writes": {func(s *scenario) {
			s.makeCall(1)
			s.duringFault(outage, func() { s.addCaller(1, withKind(notFound, journal.JobNotFound)) })
			s.runJob(1)
			s.finishCall(1)
		}, nil},
		"a record lost soon after the end": {func(s *scenario) {
			s.makeCall(1)
			s.runJob(1)
			s.addCaller(1, end)
			s.advance(minRecordRetention - time.Second)
			s.addCaller(1, withKind(notFound, journal.OutcomeReread))
		}, []string{lostJob}},
		"a record expired in time": {func(s *scenario) {
			s.makeCall(1)
			s.runJob(1)
			s.addCaller(1, end)
			s.advance(minRecordRetention)
			s.addCaller(1, withKind(notFound, journal.OutcomeReread))
		}, nil},
		"a result of no node": {func(s *scenario) {
			s.makeCall(1)
			s.finishCall(1)
		}, []string{foreignResult}},
		"a result that was made for another attempt": {func(s *scenario) {
			s.makeCall(1)
			s.runJob(1)
			e := end
			e.Code = "the node made it for attempt 2 of j1"
			s.addCaller(1, e)
		}, []string{foreignResult}},
		"too late": {func(s *scenario) {
			s.makeCall(1)
			s.runJob(1)
			s.advance(answerLimit)
			s.finishCall(1)
		}, []string{lateTerminal}},
		"late, as a fault explains": {func(s *scenario) {
			s.makeCall(1)
			s.duringFault(outage, func() { s.advance(2 * answerLimit) })
			s.runJob(1)
			s.finishCall(1)
		}, nil},
		"an error": {func(s *scenario) {
			s.makeCall(1)
			s.addCaller(1, journal.Entry{Kind: journal.Terminal, Job: jobID(1), Code: "DEADLINE_EXCEEDED"})
		}, []string{unexplainedError}},
		"an error that a fault explains": {func(s *scenario) {
			s.makeCall(1)
			s.duringFault(outage, func() {
				s.addCaller(1, journal.Entry{Kind: journal.Terminal, Job: jobID(1), Code: "DEADLINE_EXCEEDED"})
			})
		}, nil},
		"an error that the fault does not explain": {func(s *scenario) {
			s.makeCall(1)
			s.duringFault(outage, func() { s.addCaller(1, journal.Entry{Kind: journal.Terminal, Job: jobID(1), Code: "NODE_LOST"}) })
		}, []string{unexplainedError}},
		"a final refusal": {func(s *scenario) {
			s.addCaller(1, journal.Entry{Kind: journal.CallSent})
			s.addCaller(1, journal.Entry{Kind: journal.Terminal, Code: "REQUEST_MISMATCH"})
		}, []string{unexplainedError}},
	} {
		s := newScenario()
		c.build(s)
		slices.Sort(c.want)
		if diff := cmp.Diff(c.want, s.finish(1).violationKinds()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCallSummary(t *testing.T) {
	t.Parallel()
	s := newScenario()
	s.makeCall(1)
	s.runJob(1)
	s.finishCall(1)
	s.duringFault(fault{recoveryLimit: time.Minute, allowedCodes: storeDownCodes}, func() {
		s.addCaller(2, journal.Entry{Kind: journal.CallSent})
		s.callers = append(s.callers, journal.Entry{At: s.clock, Source: "c", Kind: journal.CallRefused, Code: storeDownCodes[0]})
		s.advance(time.Second)
		s.addCaller(2, journal.Entry{Kind: journal.Terminal, Job: jobID(2), Code: storeDownCodes[1]})
	})
	got := check(s.finish(1).evidence)
	const want = "2 calls, 1 done, failed [DEADLINE_EXCEEDED 1], 1 refused and repeated, longest 1.001s (r2)"
	if line := got.callSummary(); line != want || len(got.violations) > 0 {
		t.Errorf("%s, %v; want %s", line, got.violations, want)
	}
}
