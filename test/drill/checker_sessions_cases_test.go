package drill

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
)

func TestCheckerFindsViolations(t *testing.T) {
	t.Parallel()
	const brief = time.Second
	outage := fault{name: "outage", recoveryLimit: 30 * time.Second, allowedCodes: storeDownCodes, mayLoseWrites: true}
	for name, c := range map[string]struct {
		build func(s *scenario) *scenario
		want  []string
	}{
		"no violation": {func(s *scenario) *scenario {
			s.sendUtterance(1)
			s.runJob(1)
			s.receiveResult(1)
			return s.finish(2)
		}, nil},
		"no terminal message": {func(s *scenario) *scenario {
			s.sendUtterance(1)
			s.runJob(1)
			return s.finish(2)
		}, []string{unanswered}},
		"two terminal messages": {func(s *scenario) *scenario {
			s.sendUtterance(1)
			s.runJob(1)
			s.receiveResult(1)
			again := result(1)
			again.Index, again.Seq = 2, 3
			s.addSession(again)
			return s.finish(2)
		}, []string{duplicateTerminal, wrongCommit}},
		"a result repeated at its own index": {func(s *scenario) *scenario {
			s.receiveResult(0)
			return s.finish(1)
		}, []string{duplicateTerminal, outOfOrder}},
		"out of order": {func(s *scenario) *scenario {
			for n := 1; n <= 2; n++ {
				s.sendUtterance(n)
				s.runJob(n)
			}
			s.receiveResult(2)
			s.receiveResult(1)
			return s.finish(3)
		}, []string{unexplainedGap, outOfOrder}},
		"swapped indexes": {func(s *scenario) *scenario {
			for n := 1; n <= 2; n++ {
				s.sendUtterance(n)
				s.runJob(n)
			}
			a, b := result(2), result(1)
			a.Index, b.Index = 1, 2
			s.addSession(a)
			s.addSession(b)
			return s.finish(3)
		}, []string{outOfOrder}},
		"a result for an unknown request": {func(s *scenario) *scenario {
			s.runJob(1)
			s.receiveResult(1)
			return s.finish(1)
		}, []string{unknownTerminal, wrongCommit}},
		"a gap": {func(s *scenario) *scenario {
			s.sendUtterance(1)
			s.sendUtterance(2)
			s.runJob(2)
			s.receiveResult(2)
			return s.finish(3)
		}, []string{unexplainedGap, unanswered}},
		"an announced gap that no fault explains": {func(s *scenario) *scenario {
			s.addSession(journal.Entry{Kind: journal.Reconnecting})
			s.addSession(journal.Entry{Kind: journal.Resumed})
			return s.finish(1)
		}, []string{unexplainedGap}},
		"an announced gap that a fault explains": {func(s *scenario) *scenario {
			s.duringFault(outage, func() {
				s.addSession(journal.Entry{Kind: journal.Reconnecting})
				s.addSession(journal.Entry{Kind: journal.Resumed})
			})
			return s.finish(1)
		}, nil},
		"a message repeated on the same connection": {func(s *scenario) *scenario {
			s.addSession(journal.Entry{Kind: journal.DurableReceived, Conn: 1, Seq: 1})
			s.addSession(journal.Entry{Kind: journal.DurableReceived, Conn: 1, Seq: 1})
			return s.finish(1)
		}, []string{redelivered}},
		"a message repeated after a resume that had it": {func(s *scenario) *scenario {
			s.addSession(journal.Entry{Kind: journal.DurableReceived, Conn: 1, Seq: 1})
			s.addSession(journal.Entry{Kind: journal.ResumeSent, Conn: 2, Seq: 1})
			s.addSession(journal.Entry{Kind: journal.DurableReceived, Conn: 2, Seq: 1})
			return s.finish(1)
		}, []string{redelivered}},
		"a message sent again after a resume that missed it": {func(s *scenario) *scenario {
			s.addSession(journal.Entry{Kind: journal.DurableReceived, Conn: 1, Seq: 1})
			s.addSession(journal.Entry{Kind: journal.ResumeSent, Conn: 2, Seq: 0})
			s.addSession(journal.Entry{Kind: journal.DurableReceived, Conn: 2, Seq: 1})
			return s.finish(1)
		}, nil},
		"a message repeated after an announced gap": {func(s *scenario) *scenario {
			s.addSession(journal.Entry{Kind: journal.DurableReceived, Conn: 1, Seq: 1})
			s.addSession(journal.Entry{Kind: journal.ResumeSent, Conn: 2, Seq: 1})
			s.addSession(journal.Entry{Kind: journal.GapReceived, Conn: 2, Seq: 0})
			s.addSession(journal.Entry{Kind: journal.DurableReceived, Conn: 2, Seq: 1})
			s.addSession(journal.Entry{Kind: journal.DurableReceived, Conn: 2, Seq: 1})
			return s.finish(1)
		}, []string{redelivered}},
		"speech": {func(s *scenario) *scenario {
			s.receiveSpeech(0, clustertest.SpeechSize-10, 10)
			return s.finish(2)
		}, nil},
		"speech that is cut short": {func(s *scenario) *scenario {
			s.receiveSpeech(0, clustertest.SpeechSize-10)
			return s.finish(2)
		}, []string{wrongSpeech}},
		"speech that a fault cuts short": {func(s *scenario) *scenario {
			s.duringFault(outage, func() { s.receiveSpeech(0, clustertest.SpeechSize-10) })
			return s.finish(2)
		}, nil},
		"speech that is repeated": {func(s *scenario) *scenario {
			s.receiveSpeech(0, clustertest.SpeechSize-10, 10)
			s.addSession(journal.Entry{Kind: journal.SpeechReceived, Job: jobID(1), Attempt: 1, Bytes: 10})
			return s.finish(2)
		}, []string{wrongSpeech}},
		"speech that was not announced": {func(s *scenario) *scenario {
			s.addSession(journal.Entry{Kind: journal.SpeechReceived, Job: jobID(0), Attempt: 1, Bytes: 10})
			return s.finish(1)
		}, []string{wrongSpeech}},
		"speech that was requested and not announced": {func(s *scenario) *scenario {
			s.addSession(journal.Entry{Kind: journal.SessionStarted, Speech: true})
			s.sendUtterance(1)
			s.runJob(1)
			s.receiveResult(1)
			return s.finish(2)
		}, []string{wrongSpeech}},
		"a commit that is sent twice": {func(s *scenario) *scenario {
			s.addSession(commit(0, 1))
			return s.finish(1)
		}, []string{wrongCommit}},
		"a commit that is sent again over another connection": {func(s *scenario) *scenario {
			s.addSession(journal.Entry{Kind: journal.Reconnecting})
			s.addSession(commit(0, 2))
			return s.finish(1)
		}, nil},
		"a commit after the terminal message": {func(s *scenario) *scenario {
			s.addSession(journal.Entry{Kind: journal.DurableReceived, Conn: 2, Seq: 1})
			s.addSession(commit(0, 2))
			return s.finish(1)
		}, []string{wrongCommit}},
		"a commit that changes": {func(s *scenario) *scenario {
			e := commit(0, 2)
			e.Bytes--
			s.addSession(e)
			return s.finish(1)
		}, []string{wrongCommit}},
		"a commit that changes after the store lost writes": {func(s *scenario) *scenario {
			s.duringFault(outage, func() {
				e := commit(0, 2)
				e.Bytes--
				s.addSession(e)
			})
			return s.finish(1)
		}, nil},
		"a missing commit": {func(s *scenario) *scenario {
			s.addSession(journal.Entry{Kind: journal.UtteranceSent, Request: requestID(1), Bytes: 100})
			s.runJob(1)
			s.receiveResult(1)
			return s.finish(2)
		}, []string{wrongCommit}},
		"one attempt on two nodes, while a third rejected it": {func(s *scenario) *scenario {
			s.addNode(journal.Entry{Kind: journal.WorkStarted, Job: "x", Attempt: 1, Held: 1})
			s.addNode(journal.Entry{Source: "o", Kind: journal.JobRejected, Job: "x", Attempt: 1})
			s.addNode(journal.Entry{Source: "m", Kind: journal.WorkStarted, Job: "x", Attempt: 1, Held: 1})
			return s.finish(1)
		}, []string{splitAttempt}},
		"a late write": {func(s *scenario) *scenario {
			s.scriptViolations = append(s.scriptViolations, clustertest.ScriptViolation{At: s.clock, Kind: lateWrite})
			return s.finish(1)
		}, []string{lateWrite}},
		"a write of a superseded owner": {func(s *scenario) *scenario {
			s.scriptViolations = append(s.scriptViolations, clustertest.ScriptViolation{At: s.clock, Kind: supersededWrite})
			return s.finish(1)
		}, []string{supersededWrite}},
		"a write of a superseded owner after the store lost writes": {func(s *scenario) *scenario {
			s.duringFault(outage, func() {
				s.scriptViolations = append(s.scriptViolations, clustertest.ScriptViolation{At: s.clock, Kind: supersededWrite})
			})
			return s.finish(1)
		}, nil},
		"a lost session": {func(s *scenario) *scenario {
			s.addSession(journal.Entry{Kind: journal.SessionLost, Code: "gone"})
			s.addNode(journal.Entry{Kind: journal.NodeStopped, OK: true})
			return s
		}, []string{badSessionEnd}},
		"a session without an end":     {func(s *scenario) *scenario { return s }, []string{badSessionEnd}},
		"a wrong number of utterances": {func(s *scenario) *scenario { return s.finish(2) }, []string{badSessionEnd}},
		"other audio": {func(s *scenario) *scenario {
			s.sendUtterance(1)
			s.runJob(1)
			e := result(1)
			e.Bytes--
			s.addSession(e)
			return s.finish(2)
		}, []string{wrongAudio}},
		"too late": {func(s *scenario) *scenario {
			s.sendUtterance(1)
			s.runJob(1)
			s.advance(answerLimit)
			s.receiveResult(1)
			return s.finish(2)
		}, []string{lateTerminal}},
		"late, as a stall of the machine explains": {func(s *scenario) *scenario {
			s.sendUtterance(1)
			s.stalls = append(s.stalls, stall{s.clock - int64(time.Hour), s.clock + int64(brief)})
			s.runJob(1)
			s.advance(answerLimit)
			s.receiveResult(1)
			return s.finish(2)
		}, nil},
		"later than a stall explains": {func(s *scenario) *scenario {
			s.sendUtterance(1)
			s.stalls = append(s.stalls, stall{s.clock - int64(time.Hour), s.clock + int64(brief)})
			s.runJob(1)
			s.advance(answerLimit + brief)
			s.receiveResult(1)
			return s.finish(2)
		}, []string{lateTerminal}},
		"late, as a fault explains": {func(s *scenario) *scenario {
			s.sendUtterance(1)
			s.duringFault(outage, func() { s.advance(2 * answerLimit) })
			s.runJob(1)
			s.receiveResult(1)
			return s.finish(2)
		}, nil},
		"later than the fault explains": {func(s *scenario) *scenario {
			s.sendUtterance(1)
			s.duringFault(outage, func() { s.advance(outage.recoveryLimit + brief) })
			s.runJob(1)
			s.receiveResult(1)
			return s.finish(2)
		}, []string{lateTerminal}},
		"an error": {func(s *scenario) *scenario {
			s.sendUtterance(1)
			s.addSession(failure(1, "NODE_LOST"))
			return s.finish(2)
		}, []string{unexplainedError}},
		"an error that a fault explains": {func(s *scenario) *scenario {
			s.sendUtterance(1)
			s.duringFault(outage, func() { s.addSession(failure(1, storeDownCodes[0])) })
			return s.finish(2)
		}, nil},
		"an error that the fault does not explain": {func(s *scenario) *scenario {
			s.sendUtterance(1)
			s.duringFault(outage, func() { s.addSession(failure(1, "NODE_LOST")) })
			return s.finish(2)
		}, []string{unexplainedError}},
		"more failed attempts than faults": {func(s *scenario) *scenario {
			s.sendUtterance(1)
			s.duringFault(outage, func() {})
			s.duringFault(outage, func() { s.addSession(failure(1, "MAX_RETRY_EXCEEDED")) })
			return s.finish(2)
		}, []string{unexplainedError}},
		"as many failed attempts as faults": {func(s *scenario) *scenario {
			s.sendUtterance(1)
			s.duringFault(outage, func() {})
			s.duringFault(outage, func() {})
			s.duringFault(outage, func() { s.addSession(failure(1, "MAX_RETRY_EXCEEDED")) })
			return s.finish(2)
		}, nil},
		"more work than slots": {func(s *scenario) *scenario {
			s.addNode(journal.Entry{Kind: journal.WorkStarted, Job: "x", Attempt: 1, Held: 3})
			return s.finish(1)
		}, []string{overloaded}},
		"more jobs than slots": {func(s *scenario) *scenario {
			s.addNode(journal.Entry{Kind: journal.JobOverAssigned, Job: "x", Attempt: 1, Held: 2})
			return s.finish(1)
		}, []string{overAssigned}},
		"more jobs than slots after the store lost writes": {func(s *scenario) *scenario {
			s.duringFault(outage, func() { s.addNode(journal.Entry{Kind: journal.JobOverAssigned, Job: "x", Attempt: 1, Held: 2}) })
			return s.finish(1)
		}, nil},
		"a result of no node": {func(s *scenario) *scenario {
			s.sendUtterance(1)
			s.receiveResult(1)
			return s.finish(2)
		}, []string{foreignResult}},
		"a result of another attempt": {func(s *scenario) *scenario {
			s.sendUtterance(1)
			s.runJob(1)
			e := result(1)
			e.Attempt = 2
			s.addSession(e)
			return s.finish(2)
		}, []string{foreignResult}},
		"a result of another node": {func(s *scenario) *scenario {
			s.sendUtterance(1)
			s.runJob(1)
			e := result(1)
			e.Node = "m"
			s.addSession(e)
			return s.finish(2)
		}, []string{foreignResult}},
		"a result of work that failed": {func(s *scenario) *scenario {
			s.sendUtterance(1)
			s.addNode(journal.Entry{Kind: journal.WorkStarted, Job: jobID(1), Attempt: 1, Held: 1})
			s.addNode(journal.Entry{Kind: journal.WorkEnded, Job: jobID(1), Attempt: 1, Code: "DRILL"})
			s.receiveResult(1)
			return s.finish(2)
		}, []string{foreignResult}},
		"one attempt on two nodes": {func(s *scenario) *scenario {
			s.addNode(journal.Entry{Kind: journal.WorkStarted, Job: "x", Attempt: 1, Held: 1})
			s.addNode(journal.Entry{Source: "m", Kind: journal.WorkStarted, Job: "x", Attempt: 1, Held: 1})
			return s.finish(1)
		}, []string{splitAttempt}},
		"one attempt on two nodes, of which the first returned it": {func(s *scenario) *scenario {
			s.addNode(journal.Entry{Kind: journal.WorkStarted, Job: "x", Attempt: 1, Held: 1})
			s.addNode(journal.Entry{Kind: journal.WorkEnded, Job: "x", Attempt: 1, Code: "NODE_BUSY"})
			s.addNode(journal.Entry{Source: "m", Kind: journal.WorkStarted, Job: "x", Attempt: 1, Held: 1})
			return s.finish(1)
		}, nil},
		"one attempt on two nodes, after the first had finished it": {func(s *scenario) *scenario {
			s.runJob(1)
			s.advance(recordRetention - brief)
			s.addNode(journal.Entry{Source: "m", Kind: journal.WorkStarted, Job: jobID(1), Attempt: 1, Held: 1})
			return s.finish(1)
		}, []string{splitAttempt}},
		"one attempt on two nodes, after the record has expired": {func(s *scenario) *scenario {
			s.runJob(1)
			s.advance(recordRetention + brief)
			s.addNode(journal.Entry{Source: "m", Kind: journal.WorkStarted, Job: jobID(1), Attempt: 1, Held: 1})
			return s.finish(1)
		}, nil},
		"a node that stopped early": {func(s *scenario) *scenario {
			s.addNode(journal.Entry{Kind: journal.NodeStopped, Code: "refused"})
			s.addSession(journal.Entry{Kind: journal.SessionEnded, Index: 1})
			return s
		}, []string{missingNode}},
		"an inbox that does not empty": {func(s *scenario) *scenario {
			s.injections = append(s.injections, &injection{fault: outage, inboxesErr: fmt.Errorf("3 are pending")})
			return s.finish(1)
		}, []string{stuckInbox}},
		"no result from another instance": {func(s *scenario) *scenario {
			s.multiInstance = true
			s.connectTo("i-0", "i-0")
			s.sendUtterance(1)
			s.runJob(1)
			s.receiveResult(1)
			return s.finish(2)
		}, []string{noCrossInstance}},
		"a result from another instance": {func(s *scenario) *scenario {
			s.multiInstance = true
			s.connectTo("i-0", "i-1")
			s.sendUtterance(1)
			s.runJob(1)
			s.receiveResult(1)
			return s.finish(2)
		}, nil},
		"nodes that do not reconnect": {func(s *scenario) *scenario {
			s.injections = append(s.injections, &injection{fault: outage, nodesErr: fmt.Errorf("3 of 4 nodes are connected")})
			return s.finish(1)
		}, []string{missingNode}},
	} {
		slices.Sort(c.want)
		if diff := cmp.Diff(c.want, c.build(newScenario()).violationKinds()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSummaryFigures(t *testing.T) {
	t.Parallel()
	s := newScenario()
	s.sendUtterance(1)
	s.duringFault(fault{recoveryLimit: time.Minute, allowedCodes: storeDownCodes}, func() {
		s.addSession(journal.Entry{Kind: journal.Reconnecting})
		s.addSession(journal.Entry{Kind: journal.Resumed, Recovered: true})
		s.advance(time.Second)
		s.addSession(failure(1, storeDownCodes[0]))
	})
	got := check(s.finish(2).evidence)
	want := figures{
		sessionCount: 1, utterances: 2, results: 1, errors: map[string]int{storeDownCodes[0]: 1}, reconnects: 1, resumes: 1,
		longest: time.Second + 5*time.Millisecond, longestRequest: "r1", jobs: 1, attempts: 1, maxConcurrent: 1,
		callErrors: map[string]int{},
	}
	if diff := cmp.Diff(want, got.figures, cmp.AllowUnexported(figures{})); diff != "" || len(got.violations) > 0 {
		t.Errorf("%v (-want +got):\n%s", got.violations, diff)
	}
}
