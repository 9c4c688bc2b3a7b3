package drill

import (
	"fmt"
	"slices"
	"time"
)

// story is made up: what sessions and nodes saw in a drill that never was.
type story struct {
	evidence
	clock int64
}

// tick lets time pass.
func (s *story) tick(d time.Duration) { s.clock += int64(d) }

func (s *story) session(e entry) {
	e.At = s.clock
	if e.Who == "" {
		e.Who = "s"
	}
	s.sessions = append(s.sessions, e)
	s.tick(time.Millisecond)
}

func (s *story) node(e entry) {
	e.At = s.clock
	if e.Who == "" {
		e.Who = "n"
	}
	e.Slots = 2
	s.nodes = append(s.nodes, e)
	s.tick(time.Millisecond)
}

func request(n int) string { return fmt.Sprintf("r%d", n) }

func job(n int) string { return fmt.Sprintf("j%d", n) }

// says, does and hears are the three acts of an utterance.
func (s *story) says(n int) {
	s.session(entry{What: said, Request: request(n), Bytes: 100})
	s.session(entry{What: committed, Request: request(n), Index: int64(n), Job: job(n)})
	s.session(cutAt(n, 1))
}

func (s *story) does(n int) {
	s.node(entry{What: assigned, Job: job(n), Attempt: 1})
	s.node(entry{What: acked, Job: job(n), Attempt: 1})
	s.node(entry{What: begun, Job: job(n), Attempt: 1, Held: 1})
	s.tick(100 * time.Millisecond)
	s.node(entry{What: ended, Job: job(n), Attempt: 1, OK: true})
	s.node(entry{What: taken, Job: job(n), Attempt: 1, OK: true})
}

func (s *story) hears(n int) { s.session(result(n)) }

// speaks is one more utterance, whose result is spoken in pieces of these sizes.
func (s *story) speaks(sizes ...int64) {
	s.says(1)
	s.does(1)
	e := result(1)
	e.Speech = true
	s.session(e)
	for i, size := range sizes {
		s.session(entry{What: spoke, Job: job(1), Attempt: 1, Index: int64(i), Bytes: size, OK: i == len(sizes)-1})
	}
}

func result(n int) entry {
	return entry{What: terminal, OK: true, Request: request(n), Index: int64(n), Seq: int64(n + 1), Job: job(n), Attempt: 1, Node: "n", Bytes: 100}
}

// cutAt is what is said over a connection of where an utterance was cut.
func cutAt(n, conn int) entry {
	return entry{What: told, Conn: conn, Index: int64(n), Job: job(n), Seq: int64(10 * n), Bytes: int64(10*n + 9)}
}

func failure(n int, code string) entry {
	return entry{What: terminal, Request: request(n), Index: int64(n), Seq: int64(n + 1), Job: job(n), Code: code}
}

// begins is a story in which the first of some utterances went well.
func begins() *story {
	s := &story{clock: int64(time.Hour), evidence: evidence{within: usual}}
	s.session(entry{What: started})
	s.node(entry{What: registered})
	s.says(0)
	s.does(0)
	s.hears(0)
	return s
}

// ends closes it well, after so many utterances.
func (s *story) ends(utterances int) *story {
	s.session(entry{What: over, Index: int64(utterances)})
	s.node(entry{What: left, OK: true})
	return s
}

// connects has the session and the node be connected from now on.
func (s *story) connects(session, node string) {
	s.routes = [2]routes{{"a": {{s.clock, session}}}, {"b": {{s.clock, "elsewhere"}, {s.clock + 1, node}, {s.clock + int64(time.Hour), session}}}}
	s.tick(time.Millisecond)
	s.session(entry{What: connected, Code: "a"})
	s.node(entry{What: connected, Code: "b"})
}

// caller notes what the caller of a call saw.
func (s *story) caller(n int, e entry) {
	e.At, e.Who, e.Request = s.clock, "c", request(n)
	s.callers = append(s.callers, e)
	s.tick(time.Millisecond)
}

// calls and done are the first and the last act of a call. Between them a node does it.
func (s *story) calls(n int) {
	s.caller(n, entry{What: called})
	s.caller(n, entry{What: accepted, Job: job(n), Attempt: 1, Node: "n"})
}

func (s *story) done(n int) {
	e := entry{What: terminal, Job: job(n), Attempt: 1, Node: "n", OK: true}
	s.caller(n, e)
	s.tick(lookAgain)
	e.What = looked
	s.caller(n, e)
}

// struck has a fault be done while tell tells on.
func (s *story) struck(f fault, tell func()) {
	st := &strike{fault: f, struck: "i-1", from: s.clock}
	tell()
	st.to = s.clock
	s.strikes = append(s.strikes, st)
}

// kinds are the kinds of violations that the checker finds, each once.
func (s *story) kinds() []string {
	var list []string
	for _, v := range check(s.evidence).broken {
		list = append(list, v.kind)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
