package drill

import (
	"slices"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
)

// waitingScenario builds the evidence of a drill with waiting requests that never ran: one node with one slot, which works on a job.
type waitingScenario struct {
	*scenario
	waitingEvidence
	began int64
}

const ms = int64(time.Millisecond)

func newWaitingScenario() *waitingScenario {
	s := &waitingScenario{scenario: newScenario()}
	s.began = s.clock
	s.kinds = map[string]clustertest.NodeKind{"n": {Langs: []string{"en", "es"}, Slots: 1}}
	s.free = map[string]spans{"n": {{0, s.clock + int64(time.Hour)}}}
	s.created = make(map[string]int64)
	s.limits = map[string]int{limitedTenant: 1}
	return s
}

// send sends a request to the first instance, at a time after the beginning.
func (s *waitingScenario) send(at int64, request, session string, waitMS int64) {
	s.entries = append(s.entries, journal.Entry{At: s.began + at*ms, Kind: journal.WaitSent, Request: request, Session: session, Seq: waitMS, Code: "en>es"})
}

// answer answers a request: it was placed, unless there is a code.
func (s *waitingScenario) answer(at int64, request, code string) {
	e := journal.Entry{At: s.began + at*ms, Kind: journal.WaitAnswered, Request: request, Code: code, OK: code == ""}
	if e.OK {
		e.Job = string(core.JobIDFor("a", core.RequestID(request)))
		s.created[e.Job] = e.At
	}
	s.entries = append(s.entries, e)
}

// sendAgain sends a request to the second instance too, where it is placed.
func (s *waitingScenario) sendAgain(at, answered int64, request, session string, waitMS int64) {
	n := len(s.entries)
	s.send(at, request, session, waitMS)
	s.answer(answered, request, "")
	for i := range s.entries[n:] {
		s.entries[n+i].Conn = 1
	}
}

// work lets a node work on a job of a session.
func (s *waitingScenario) work(from, to int64, node, job, session string) {
	for _, e := range []journal.Entry{
		{At: s.began + from*ms, Kind: journal.JobAssigned, Session: session}, {At: s.began + from*ms, Kind: journal.WorkStarted, Held: 1},
		{At: s.began + to*ms, Kind: journal.WorkEnded, OK: true},
	} {
		e.Source, e.Job, e.Attempt, e.Slots = node, job, 1, 1
		s.nodes = append(s.nodes, e)
	}
}

// pause stops the first instance.
func (s *waitingScenario) pause(from, to int64) {
	s.injections = append(s.injections, &injection{fault: fault{name: "pause"}, target: "i-0", from: s.began + from*ms, to: s.began + to*ms})
}

// kill kills the first instance, and starts it again.
func (s *waitingScenario) kill(from, to int64) {
	s.injections = append(s.injections, &injection{fault: fault{name: killName}, target: "i-0", from: s.began + from*ms, to: s.began + to*ms})
}

// TestWaitingChecks: each guarantee that is broken is found, and nothing else.
func TestWaitingChecks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		build func(s *waitingScenario)
		want  []string
	}{
		"answers in time": {func(s *waitingScenario) {
			s.work(0, 2000, "n", "j", "a.c")
			s.send(100, "r", "a.c", 1000)
			s.answer(1110, "r", "ALL_CANDIDATES_FULL_OR_FAILED")
		}, nil},
		"no answer": {func(s *waitingScenario) {
			s.work(0, 2000, "n", "j", "a.c")
			s.send(100, "r", "a.c", 1000)
		}, []string{lateAnswer}},
		"a late answer": {func(s *waitingScenario) {
			s.work(0, 3000, "n", "j", "a.c")
			s.send(100, "r", "a.c", 1000)
			s.answer(1700, "r", "CANNOT_BE_MET")
		}, []string{lateAnswer}},
		"a late answer of an instance that was stopped": {func(s *waitingScenario) {
			s.work(0, 3000, "n", "j", "a.c")
			s.pause(1000, 2000)
			s.send(100, "r", "a.c", 1000)
			s.answer(2100, "r", "CANNOT_BE_MET")
		}, nil},
		"a late answer while the store was down": {func(s *waitingScenario) {
			s.work(0, 3000, "n", "j", "a.c")
			s.outages = spans{{s.began + 900*ms, s.began + 1900*ms}}
			s.send(100, "r", "a.c", 1000)
			s.answer(2100, "r", "SCHEDULER_DEPENDENCY_DOWN")
		}, nil},
		"a request that was sent to a stopped instance": {func(s *waitingScenario) {
			s.work(0, 3000, "n", "j", "a.c")
			s.pause(0, 2000)
			s.send(100, "r", "a.c", 1000)
			s.answer(2900, "r", "")
		}, nil},
		"placed by an instance that was stopped during the wait": {func(s *waitingScenario) {
			s.work(0, 3000, "n", "j", "a.c")
			s.pause(600, 2000)
			s.send(100, "r", "a.c", 1000)
			s.answer(2050, "r", "")
		}, []string{servedLate}},
		"a slot that stays empty": {func(s *waitingScenario) {
			s.send(1000, "r", "a.c", 3000)
			s.answer(1400, "r", "")
			s.work(1400, 2000, "n", string(core.JobIDFor("a", "r")), "a.c")
		}, []string{emptySlot}},
		"a slot that is reserved": {func(s *waitingScenario) {
			s.free["n"] = spans{{s.began, s.began + 1200*ms}}
			s.send(1000, "r", "a.c", 3000)
			s.answer(1400, "r", "")
			s.work(1400, 2000, "n", string(core.JobIDFor("a", "r")), "a.c")
		}, nil},
		"a slot that stays empty after a fault": {func(s *waitingScenario) {
			s.pause(0, 500)
			s.send(1000, "r", "a.c", 3000)
			s.answer(2400, "r", "")
			s.work(2400, 3000, "n", string(core.JobIDFor("a", "r")), "a.c")
		}, nil},
		"a slot that stays empty for too long after a fault": {func(s *waitingScenario) {
			s.pause(0, 500)
			s.send(1000, "r", "a.c", 3000)
			s.answer(2600, "r", "")
			s.work(2600, 3000, "n", string(core.JobIDFor("a", "r")), "a.c")
		}, []string{emptySlot}},
		"a slot that only a tenant with a limit waits for": {func(s *waitingScenario) {
			s.send(1000, "r", limitedTenant+".c", 3000)
			s.answer(1400, "r", "RATE_LIMITED")
			s.work(1400, 2000, "n", "j", "a.c")
		}, nil},
		"placed in order": {func(s *waitingScenario) {
			s.work(0, 4000, "n", "j", "a.c")
			s.send(100, "r-1", "a.c", 3000)
			s.answer(3110, "r-1", "ALL_CANDIDATES_FULL_OR_FAILED")
			s.send(500, "r-2", "a.c", 1000) // it has the earlier deadline
			s.answer(900, "r-2", "")
			s.send(500, "r-3", "b.c", 8000) // of another tenant
			s.answer(900, "r-3", "")
		}, nil},
		"overtaken": {func(s *waitingScenario) {
			s.work(0, 4000, "n", "j", "a.c")
			s.send(100, "r-1", "a.c", 3000)
			s.answer(3110, "r-1", "ALL_CANDIDATES_FULL_OR_FAILED")
			s.send(500, "r-2", "a.c", 8000)
			s.answer(900, "r-2", "")
		}, []string{overtaken}},
		"placed in order, and then sent again": {func(s *waitingScenario) {
			s.work(0, 4000, "n", "j", "a.c")
			s.send(50, "r-2", "a.c", 2900) // it has the earlier deadline
			s.send(100, "r-1", "a.c", 3000)
			s.answer(3110, "r-1", "ALL_CANDIDATES_FULL_OR_FAILED")
			s.sendAgain(500, 900, "r-2", "a.c", 2900)
			s.answer(900, "r-2", "")
		}, nil},
		"overtaken after the queue was lost": {func(s *waitingScenario) {
			s.work(0, 4000, "n", "j", "a.c")
			s.pause(0, 600)
			s.send(700, "r-1", "a.c", 3000)
			s.answer(3710, "r-1", "ALL_CANDIDATES_FULL_OR_FAILED")
			s.send(1100, "r-2", "a.c", 8000)
			s.answer(1400, "r-2", "")
		}, nil},
		"requests of a killed instance are removed": {func(s *waitingScenario) {
			s.kill(1000, 2500)
			s.queued = []queueSample{{s.began + 900*ms, []string{"i-0-old", "i-1-x"}}, {s.began + 2000*ms, []string{"i-0-old"}}, {s.began + 2900*ms, []string{"i-0-new", "i-1-x"}}}
		}, nil},
		"requests of a killed instance stay": {func(s *waitingScenario) {
			s.kill(1000, 2500)
			s.queued = []queueSample{{s.began + 900*ms, []string{"i-0-old", "i-1-x"}}, {s.began + 2300*ms, []string{"i-0-old"}}}
		}, []string{deadWaiter}},
		"jobs within the limit": {func(s *waitingScenario) {
			s.work(0, 900, "m", "j-1", limitedTenant+".c")
			s.work(1000, 2000, "m", "j-2", limitedTenant+".c")
			s.work(1500, 2000, "o", "j-2", limitedTenant+".c")
		}, nil},
		"jobs beyond the limit": {func(s *waitingScenario) {
			s.work(0, 1900, "m", "j-1", limitedTenant+".c")
			s.work(1000, 2000, "o", "j-2", limitedTenant+".c")
		}, []string{overLimit}},
	} {
		s := newWaitingScenario()
		c.build(s)
		s.addNode(journal.Entry{Kind: journal.NodeStopped, OK: true})
		s.nodes[len(s.nodes)-1].At = s.began + 4000*ms
		slices.SortStableFunc(s.nodes, func(a, b journal.Entry) int { return int(a.At - b.At) })
		var got []string
		for _, v := range checkWaiting(&checker{evidence: s.evidence}, s.waitingEvidence).violations {
			got = append(got, v.kind)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: violations %q, want %q", name, got, c.want)
		}
	}
}

// TestSamples: a slot was free between two samples that found it so, unless the store did not answer or was not asked for long.
func TestSamples(t *testing.T) {
	t.Parallel()
	at := func(ms int64, free bool) occupancySample {
		return occupancySample{at: ms * int64(time.Millisecond), free: []bool{free}}
	}
	failed := occupancySample{at: 200 * ms, failed: true}
	samples := []occupancySample{at(0, true), at(50, true), at(100, true), at(150, false), failed, at(250, true), at(300, true), at(900, true), at(950, true)}
	if got, want := freeSpans([]core.NodeID{"n"}, samples)["n"], (spans{{0, 100 * ms}, {250 * ms, 300 * ms}, {900 * ms, 950 * ms}}); !slices.Equal(got, want) {
		t.Errorf("free %v, want %v", got, want)
	}
	if got, want := outages(samples), (spans{{150 * ms, 250 * ms}}); !slices.Equal(got, want) {
		t.Errorf("outages %v, want %v", got, want)
	}
}
