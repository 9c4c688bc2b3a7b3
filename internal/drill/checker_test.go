package drill

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestTheCheckerFinds every kind of violation, and none where there is none.
func TestTheCheckerFinds(t *testing.T) {
	t.Parallel()
	const brief = time.Second
	outage := fault{name: "outage", within: 30 * time.Second, codes: down, loses: true}
	for name, c := range map[string]struct {
		tell func(s *story) *story
		want []string
	}{
		"nothing": {func(s *story) *story {
			s.says(1)
			s.does(1)
			s.hears(1)
			return s.ends(2)
		}, nil},
		"no terminal message": {func(s *story) *story {
			s.says(1)
			s.does(1)
			return s.ends(2)
		}, []string{unanswered}},
		"two terminal messages": {func(s *story) *story {
			s.says(1)
			s.does(1)
			s.hears(1)
			again := result(1)
			again.Index, again.Seq = 2, 3
			s.session(again)
			return s.ends(2)
		}, []string{twice, recut}},
		"a result again at its own index": {func(s *story) *story {
			s.hears(0)
			return s.ends(1)
		}, []string{twice, disorder}},
		"out of order": {func(s *story) *story {
			for n := 1; n <= 2; n++ {
				s.says(n)
				s.does(n)
			}
			s.hears(2)
			s.hears(1)
			return s.ends(3)
		}, []string{gap, disorder}},
		"indexes that are exchanged": {func(s *story) *story {
			for n := 1; n <= 2; n++ {
				s.says(n)
				s.does(n)
			}
			a, b := result(2), result(1)
			a.Index, b.Index = 1, 2
			s.session(a)
			s.session(b)
			return s.ends(3)
		}, []string{disorder}},
		"a stranger": {func(s *story) *story {
			s.does(1)
			s.hears(1)
			return s.ends(1)
		}, []string{stranger, recut}},
		"a gap": {func(s *story) *story {
			s.says(1)
			s.says(2)
			s.does(2)
			s.hears(2)
			return s.ends(3)
		}, []string{gap, unanswered}},
		"a gap that was announced without cause": {func(s *story) *story {
			s.session(entry{What: reconnecting})
			s.session(entry{What: resumed})
			return s.ends(1)
		}, []string{gap}},
		"a gap that was announced with cause": {func(s *story) *story {
			s.struck(outage, func() {
				s.session(entry{What: reconnecting})
				s.session(entry{What: resumed})
			})
			return s.ends(1)
		}, nil},
		"a message again on the same connection": {func(s *story) *story {
			s.session(entry{What: wired, Conn: 1, Seq: 1})
			s.session(entry{What: wired, Conn: 1, Seq: 1})
			return s.ends(1)
		}, []string{duplicate}},
		"a message again after a resumption that had it": {func(s *story) *story {
			s.session(entry{What: wired, Conn: 1, Seq: 1})
			s.session(entry{What: asked, Conn: 2, Seq: 1})
			s.session(entry{What: wired, Conn: 2, Seq: 1})
			return s.ends(1)
		}, []string{duplicate}},
		"a message again after a resumption that missed it": {func(s *story) *story {
			s.session(entry{What: wired, Conn: 1, Seq: 1})
			s.session(entry{What: asked, Conn: 2, Seq: 0})
			s.session(entry{What: wired, Conn: 2, Seq: 1})
			return s.ends(1)
		}, nil},
		"a message again after it was said that it is gone": {func(s *story) *story {
			s.session(entry{What: wired, Conn: 1, Seq: 1})
			s.session(entry{What: asked, Conn: 2, Seq: 1})
			s.session(entry{What: rewound, Conn: 2, Seq: 0})
			s.session(entry{What: wired, Conn: 2, Seq: 1})
			s.session(entry{What: wired, Conn: 2, Seq: 1})
			return s.ends(1)
		}, []string{duplicate}},
		"speech": {func(s *story) *story {
			s.speaks(0, speechSize-10, 10)
			return s.ends(2)
		}, nil},
		"speech that is cut short": {func(s *story) *story {
			s.speaks(0, speechSize-10)
			return s.ends(2)
		}, []string{mumbled}},
		"speech that a fault cuts short": {func(s *story) *story {
			s.struck(outage, func() { s.speaks(0, speechSize-10) })
			return s.ends(2)
		}, nil},
		"speech that comes again": {func(s *story) *story {
			s.speaks(0, speechSize-10, 10)
			s.session(entry{What: spoke, Job: job(1), Attempt: 1, Bytes: 10})
			return s.ends(2)
		}, []string{mumbled}},
		"speech that nobody announced": {func(s *story) *story {
			s.session(entry{What: spoke, Job: job(0), Attempt: 1, Bytes: 10})
			return s.ends(1)
		}, []string{mumbled}},
		"speech that was wanted and not promised": {func(s *story) *story {
			s.session(entry{What: started, Speech: true})
			s.says(1)
			s.does(1)
			s.hears(1)
			return s.ends(2)
		}, []string{mumbled}},
		"a cut that is told twice": {func(s *story) *story {
			s.session(cutAt(0, 1))
			return s.ends(1)
		}, []string{recut}},
		"a cut that is told again over another connection": {func(s *story) *story {
			s.session(entry{What: reconnecting})
			s.session(cutAt(0, 2))
			return s.ends(1)
		}, nil},
		"a cut that is told after the end": {func(s *story) *story {
			s.session(entry{What: wired, Conn: 2, Seq: 1})
			s.session(cutAt(0, 2))
			return s.ends(1)
		}, []string{recut}},
		"a cut that becomes another": {func(s *story) *story {
			e := cutAt(0, 2)
			e.Bytes--
			s.session(e)
			return s.ends(1)
		}, []string{recut}},
		"a cut that becomes another after the store forgot": {func(s *story) *story {
			s.struck(outage, func() {
				e := cutAt(0, 2)
				e.Bytes--
				s.session(e)
			})
			return s.ends(1)
		}, nil},
		"a cut that is never told": {func(s *story) *story {
			s.session(entry{What: said, Request: request(1), Bytes: 100})
			s.does(1)
			s.hears(1)
			return s.ends(2)
		}, []string{recut}},
		"one attempt on two nodes, while a third refused it": {func(s *story) *story {
			s.node(entry{What: begun, Job: "x", Attempt: 1, Held: 1})
			s.node(entry{Who: "o", What: rejected, Job: "x", Attempt: 1})
			s.node(entry{Who: "m", What: begun, Job: "x", Attempt: 1, Held: 1})
			return s.ends(1)
		}, []string{split}},
		"a write that came too late": {func(s *story) *story {
			s.effects = append(s.effects, effect{at: s.clock, kind: overdue})
			return s.ends(1)
		}, []string{overdue}},
		"a write of somebody who was superseded": {func(s *story) *story {
			s.effects = append(s.effects, effect{at: s.clock, kind: superseded})
			return s.ends(1)
		}, []string{superseded}},
		"a write of somebody of whom the store has forgotten that he was superseded": {func(s *story) *story {
			s.struck(outage, func() { s.effects = append(s.effects, effect{at: s.clock, kind: superseded}) })
			return s.ends(1)
		}, nil},
		"a lost session": {func(s *story) *story {
			s.session(entry{What: lost, Code: "gone"})
			s.node(entry{What: left, OK: true})
			return s
		}, []string{ending}},
		"a session without an end":  {func(s *story) *story { return s }, []string{ending}},
		"a session that miscounted": {func(s *story) *story { return s.ends(2) }, []string{ending}},
		"other sound": {func(s *story) *story {
			s.says(1)
			s.does(1)
			e := result(1)
			e.Bytes--
			s.session(e)
			return s.ends(2)
		}, []string{garbled}},
		"too late": {func(s *story) *story {
			s.says(1)
			s.does(1)
			s.tick(usual)
			s.hears(1)
			return s.ends(2)
		}, []string{slow}},
		"late, and a fault says why": {func(s *story) *story {
			s.says(1)
			s.struck(outage, func() { s.tick(2 * usual) })
			s.does(1)
			s.hears(1)
			return s.ends(2)
		}, nil},
		"later than the fault explains": {func(s *story) *story {
			s.says(1)
			s.struck(outage, func() { s.tick(outage.within + brief) })
			s.does(1)
			s.hears(1)
			return s.ends(2)
		}, []string{slow}},
		"an error": {func(s *story) *story {
			s.says(1)
			s.session(failure(1, "NODE_LOST"))
			return s.ends(2)
		}, []string{failing}},
		"an error that a fault explains": {func(s *story) *story {
			s.says(1)
			s.struck(outage, func() { s.session(failure(1, down[0])) })
			return s.ends(2)
		}, nil},
		"an error that the fault does not explain": {func(s *story) *story {
			s.says(1)
			s.struck(outage, func() { s.session(failure(1, "NODE_LOST")) })
			return s.ends(2)
		}, []string{failing}},
		"attempts that were used up": {func(s *story) *story {
			s.says(1)
			s.struck(outage, func() {})
			s.struck(outage, func() { s.session(failure(1, "MAX_RETRY_EXCEEDED")) })
			return s.ends(2)
		}, []string{failing}},
		"attempts of which each met a fault": {func(s *story) *story {
			s.says(1)
			s.struck(outage, func() {})
			s.struck(outage, func() {})
			s.struck(outage, func() { s.session(failure(1, "MAX_RETRY_EXCEEDED")) })
			return s.ends(2)
		}, nil},
		"more work than slots": {func(s *story) *story {
			s.node(entry{What: begun, Job: "x", Attempt: 1, Held: 3})
			return s.ends(1)
		}, []string{crowded}},
		"more jobs than slots": {func(s *story) *story {
			s.node(entry{What: oversold, Job: "x", Attempt: 1, Held: 2})
			return s.ends(1)
		}, []string{overdrawn}},
		"more jobs than slots after the store forgot": {func(s *story) *story {
			s.struck(outage, func() { s.node(entry{What: oversold, Job: "x", Attempt: 1, Held: 2}) })
			return s.ends(1)
		}, nil},
		"a result of nobody": {func(s *story) *story {
			s.says(1)
			s.hears(1)
			return s.ends(2)
		}, []string{unheld}},
		"a result of another attempt": {func(s *story) *story {
			s.says(1)
			s.does(1)
			e := result(1)
			e.Attempt = 2
			s.session(e)
			return s.ends(2)
		}, []string{unheld}},
		"a result of another node": {func(s *story) *story {
			s.says(1)
			s.does(1)
			e := result(1)
			e.Node = "m"
			s.session(e)
			return s.ends(2)
		}, []string{unheld}},
		"a result of work that failed": {func(s *story) *story {
			s.says(1)
			s.node(entry{What: begun, Job: job(1), Attempt: 1, Held: 1})
			s.node(entry{What: ended, Job: job(1), Attempt: 1, Code: "DRILL"})
			s.hears(1)
			return s.ends(2)
		}, []string{unheld}},
		"one attempt on two nodes": {func(s *story) *story {
			s.node(entry{What: begun, Job: "x", Attempt: 1, Held: 1})
			s.node(entry{Who: "m", What: begun, Job: "x", Attempt: 1, Held: 1})
			return s.ends(1)
		}, []string{split}},
		"one attempt on two nodes, of which the first gave it back": {func(s *story) *story {
			s.node(entry{What: begun, Job: "x", Attempt: 1, Held: 1})
			s.node(entry{What: ended, Job: "x", Attempt: 1, Code: "NODE_BUSY"})
			s.node(entry{Who: "m", What: begun, Job: "x", Attempt: 1, Held: 1})
			return s.ends(1)
		}, nil},
		"one attempt on two nodes, after the first had done it": {func(s *story) *story {
			s.does(1)
			s.tick(recordKept - brief)
			s.node(entry{Who: "m", What: begun, Job: job(1), Attempt: 1, Held: 1})
			return s.ends(1)
		}, []string{split}},
		"one attempt on two nodes, after everybody could forget it": {func(s *story) *story {
			s.does(1)
			s.tick(recordKept + brief)
			s.node(entry{Who: "m", What: begun, Job: job(1), Attempt: 1, Held: 1})
			return s.ends(1)
		}, nil},
		"a node that left": {func(s *story) *story {
			s.node(entry{What: left, Code: "refused"})
			s.session(entry{What: over, Index: 1})
			return s
		}, []string{deserted}},
		"an inbox that does not empty": {func(s *story) *story {
			s.strikes = append(s.strikes, &strike{fault: outage, caughtUpLate: fmt.Errorf("3 are pending")})
			return s.ends(1)
		}, []string{stuck}},
		"nothing that crossed": {func(s *story) *story {
			s.apart = true
			s.connects("i-0", "i-0")
			s.says(1)
			s.does(1)
			s.hears(1)
			return s.ends(2)
		}, []string{together}},
		"something that crossed": {func(s *story) *story {
			s.apart = true
			s.connects("i-0", "i-1")
			s.says(1)
			s.does(1)
			s.hears(1)
			return s.ends(2)
		}, nil},
		"nodes that do not come back": {func(s *story) *story {
			s.strikes = append(s.strikes, &strike{fault: outage, backLate: fmt.Errorf("3 of 4 nodes are connected")})
			return s.ends(1)
		}, []string{deserted}},
	} {
		slices.Sort(c.want)
		if diff := cmp.Diff(c.want, c.tell(begins()).kinds()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestFigures are what the summary says.
func TestFigures(t *testing.T) {
	t.Parallel()
	s := begins()
	s.says(1)
	s.struck(fault{within: time.Minute, codes: down}, func() {
		s.session(entry{What: reconnecting})
		s.session(entry{What: resumed, Recovered: true})
		s.tick(time.Second)
		s.session(failure(1, down[0]))
	})
	got := check(s.ends(2).evidence)
	want := figures{
		talks: 1, utterances: 2, results: 1, errors: map[string]int{down[0]: 1}, reconnects: 1, resumes: 1,
		longest: time.Second + 5*time.Millisecond, longestOf: "r1", jobs: 1, attempts: 1, mostHeld: 1,
		callErrors: map[string]int{},
	}
	if diff := cmp.Diff(want, got.figures, cmp.AllowUnexported(figures{})); diff != "" || len(got.broken) > 0 {
		t.Errorf("%v (-want +got):\n%s", got.broken, diff)
	}
}
