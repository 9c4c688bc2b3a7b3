package drill

import (
	"fmt"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
)

// scenario builds the evidence of a drill that never ran.
type scenario struct {
	evidence
	clock int64
}

// advance moves the clock.
func (s *scenario) advance(d time.Duration) { s.clock += int64(d) }

func (s *scenario) addSession(e journal.Entry) {
	e.At = s.clock
	if e.Source == "" {
		e.Source = "s"
	}
	s.sessions = append(s.sessions, e)
	s.advance(time.Millisecond)
}

func (s *scenario) addNode(e journal.Entry) {
	e.At = s.clock
	if e.Source == "" {
		e.Source = "n"
	}
	e.Slots = 2
	s.nodes = append(s.nodes, e)
	s.advance(time.Millisecond)
}

func requestID(n int) string { return fmt.Sprintf("r%d", n) }

func jobID(n int) string { return fmt.Sprintf("j%d", n) }

// sendUtterance, runJob and receiveResult are the three steps of an utterance.
func (s *scenario) sendUtterance(n int) {
	s.addSession(journal.Entry{Kind: journal.UtteranceSent, Request: requestID(n), Bytes: 100})
	s.addSession(journal.Entry{Kind: journal.UtteranceCommitted, Request: requestID(n), Index: int64(n), Job: jobID(n)})
	s.addSession(commit(n, 1))
}

func (s *scenario) runJob(n int) {
	s.addNode(journal.Entry{Kind: journal.JobAssigned, Job: jobID(n), Attempt: 1})
	s.addNode(journal.Entry{Kind: journal.JobAcked, Job: jobID(n), Attempt: 1})
	s.addNode(journal.Entry{Kind: journal.WorkStarted, Job: jobID(n), Attempt: 1, Held: 1})
	s.advance(100 * time.Millisecond)
	s.addNode(journal.Entry{Kind: journal.WorkEnded, Job: jobID(n), Attempt: 1, OK: true})
	s.addNode(journal.Entry{Kind: journal.ResultAcked, Job: jobID(n), Attempt: 1, OK: true})
}

func (s *scenario) receiveResult(n int) { s.addSession(result(n)) }

// receiveSpeech adds an utterance whose result has speech in chunks of these sizes.
func (s *scenario) receiveSpeech(sizes ...int64) {
	s.sendUtterance(1)
	s.runJob(1)
	e := result(1)
	e.Speech = true
	s.addSession(e)
	for i, size := range sizes {
		s.addSession(journal.Entry{Kind: journal.SpeechReceived, Job: jobID(1), Attempt: 1, Index: int64(i), Bytes: size, OK: i == len(sizes)-1})
	}
}

func result(n int) journal.Entry {
	return journal.Entry{Kind: journal.Terminal, OK: true, Request: requestID(n), Index: int64(n), Seq: int64(n + 1), Job: jobID(n), Attempt: 1, Node: "n", Bytes: 100}
}

// commit is the utterance_committed message of an utterance, over a connection.
func commit(n, conn int) journal.Entry {
	return journal.Entry{Kind: journal.CommitReceived, Conn: conn, Index: int64(n), Job: jobID(n), Seq: int64(10 * n), Bytes: int64(10*n + 9)}
}

func failure(n int, code string) journal.Entry {
	return journal.Entry{Kind: journal.Terminal, Request: requestID(n), Index: int64(n), Seq: int64(n + 1), Job: jobID(n), Code: code}
}

// newScenario starts a scenario with one successful utterance.
func newScenario() *scenario {
	s := &scenario{clock: int64(time.Hour), evidence: evidence{answerLimit: answerLimit}}
	s.addSession(journal.Entry{Kind: journal.SessionStarted})
	s.addNode(journal.Entry{Kind: journal.NodeRegistered})
	s.sendUtterance(0)
	s.runJob(0)
	s.receiveResult(0)
	return s
}

// finish ends the session and the node after a number of utterances.
func (s *scenario) finish(utterances int) *scenario {
	s.addSession(journal.Entry{Kind: journal.SessionEnded, Index: int64(utterances)})
	s.addNode(journal.Entry{Kind: journal.NodeStopped, OK: true})
	return s
}

// connectTo connects the session and the node to instances.
func (s *scenario) connectTo(session, node string) {
	s.routes = [2]clustertest.Routes{{"a": {{At: s.clock, Instance: session}}}, {"b": {{At: s.clock, Instance: "elsewhere"}, {At: s.clock + 1, Instance: node}, {At: s.clock + int64(time.Hour), Instance: session}}}}
	s.advance(time.Millisecond)
	s.addSession(journal.Entry{Kind: journal.Connected, Code: "a"})
	s.addNode(journal.Entry{Kind: journal.Connected, Code: "b"})
}

// addCaller adds an entry about a call.
func (s *scenario) addCaller(n int, e journal.Entry) {
	e.At, e.Source, e.Request = s.clock, "c", requestID(n)
	s.callers = append(s.callers, e)
	s.advance(time.Millisecond)
}

// makeCall and finishCall are the first and the last step of a call.
func (s *scenario) makeCall(n int) {
	s.addCaller(n, journal.Entry{Kind: journal.CallSent})
	s.addCaller(n, journal.Entry{Kind: journal.CallAccepted, Job: jobID(n), Attempt: 1, Node: "n"})
}

func (s *scenario) finishCall(n int) {
	e := journal.Entry{Kind: journal.Terminal, Job: jobID(n), Attempt: 1, Node: "n", OK: true}
	s.addCaller(n, e)
	s.advance(clustertest.RereadDelay)
	e.Kind = journal.OutcomeReread
	s.addCaller(n, e)
}

// duringFault injects a fault while steps adds entries.
func (s *scenario) duringFault(f fault, steps func()) {
	i := &injection{fault: f, target: "i-1", from: s.clock}
	steps()
	i.to = s.clock
	s.injections = append(s.injections, i)
}

// violationKinds returns the kinds of violations that the checker finds, sorted and without duplicates.
func (s *scenario) violationKinds() []string {
	var list []string
	for _, v := range check(s.evidence).violations {
		list = append(list, v.kind)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
