package drill

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
)

const (
	calm       = 1500 * time.Millisecond // before the first fault
	recovery   = 3 * time.Second         // after each
	usual      = 10 * time.Second        // in which an utterance that no fault touches has its terminal message
	settle     = 60 * time.Second        // in which all of them have it after the last word
	slotsEach  = 8
	mostPoison = 3
)

// drill is what is practised: faults, drawn at random unless there is only one.
type drill struct {
	faults []fault
	kept   terms
	keys   bool // what remains is looked at also in the short form; it takes as long as things are kept
	watch  bool // whether anything grows
	late   bool // something must come too late, or it proves nothing
}

// run practises it, and fails the test for everything that is broken.
func (d drill) run(t *testing.T) {
	t.Parallel()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	d.practise(t, binary).tell(t)
}

// practise does it with a binary, and says what is broken.
func (d drill) practise(t *testing.T, binary string) *checker {
	t.Helper()
	seed := *drillSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	c := muster(t, binary, rand.New(rand.NewPCG(seed, 0)), d.kept)
	nodes := *drillNodes
	if nodes == 0 {
		// A job takes 0.35 s on average, and in a fault half of the nodes may be away.
		nodes = max(4, int(float64(*drillSessions)*0.7/drillEvery.Seconds()/slotsEach)+1)
	}
	c.nodeCount, c.watched = nodes, d.watch
	var steady *crew
	steady, c.mortals = crewsOf(nodes, orders{URL: c.nodes.url(), Slots: slotsEach, Seed: seed})
	c.need(steady.start(c))
	c.need(c.mortals.start(c))
	callbacks := startDriver(t, "callbacks", c.dir, orders{URL: c.nodes.url(), Name: "callback", Count: *drillCallbacks, Slots: slotsEach, Seed: seed})
	c.need(callbacks.await(startWithin))
	callers := startDriver(t, "callers", c.dir, orders{URL: c.people.url(), Name: "caller", Count: *drillCallers, Every: time.Second, Seed: seed})
	c.need(callers.await(startWithin))
	people := startDriver(t, "sessions", c.dir, orders{URL: c.people.url(), Name: "session", Count: *drillSessions, Every: *drillEvery, Seed: seed})
	c.need(people.await(startWithin))

	marks := c.poisoned(mostPoison)
	saw := evidence{within: usual, apart: len(c.instances) > 1}
	rows := d.faultsInTurn(t, c, &saw)
	marks = append(marks, c.poisoned(mostPoison)...)

	var broken []violation
	report := func(kind string, err error) {
		if err != nil {
			broken = append(broken, violation{kind, err.Error()})
		}
	}
	var err error
	saw.sessions, err = people.home(settle)
	report(unanswered, err)
	saw.callers, err = callers.home(settle)
	report(unended, err)
	report(stuck, c.emptied())
	for _, crew := range []*crew{steady, c.mortals} {
		nodes, err := crew.home(30 * time.Second)
		report(deserted, err)
		saw.nodes = append(saw.nodes, nodes...)
	}
	beside, err := callbacks.home(30 * time.Second)
	report(deserted, err)
	saw.nodes = append(saw.nodes, beside...)

	letters, err := c.redis.letters()
	c.need(err)
	broken = append(broken, wrongLetters(letters, marks)...)
	left := "not looked at"
	if d.keys || *drillFor > 0 {
		keys, err := c.wrongKeys(t.Context(), d.kept.keptFor(), len(marks) > 0)
		c.need(err)
		for _, key := range keys {
			broken = append(broken, violation{leftover, key})
		}
		left = strconv.Itoa(len(keys))
	}
	broken = append(broken, rows.growth()...)
	broken = append(broken, c.crashes(append(append([]*driver{people, callers, callbacks}, steady.lives...), c.mortals.lives...)...)...)
	var heard string
	saw.effects, heard = c.heard(d)

	saw.routes = [2]routes{c.people.went(), c.nodes.went()}
	verdict := check(saw)
	verdict.broken = append(verdict.broken, broken...)
	b, err := c.redis.backlog()
	c.need(err)
	t.Logf("seed %d, %s, %d instances, %d nodes: %s; Redis ran %s; pending %d, dead letters %d of %d poison, keys left %s",
		seed, c.redis.name, len(c.instances), nodes, verdict.summary(), heard, b.pending+b.waiting, len(letters), len(marks), left)
	if verdict.results == 0 {
		t.Error("that proves nothing: there was no result")
	}
	return verdict
}

// faultsInTurn does the faults, each once and then on for as long as was asked.
func (d drill) faultsInTurn(t *testing.T, c *cluster, saw *evidence) *watch {
	rows := &watch{on: d.watch}
	backoff.Sleep(t.Context(), calm)
	rows.look(c)
	for end, n := time.Now().Add(*drillFor), 0; n < len(d.faults) || time.Now().Before(end); n++ {
		f := d.faults[n%len(d.faults)]
		if n >= len(d.faults) {
			f = d.faults[c.dice.IntN(len(d.faults))]
		}
		s := c.strike(f)
		saw.strikes = append(saw.strikes, s)
		t.Logf("%v; the inboxes had caught up after %v, all nodes were back after %v", s, s.caughtUp.Round(time.Millisecond), s.back.Round(time.Millisecond))
		backoff.Sleep(t.Context(), recovery)
		rows.look(c)
	}
	return rows
}

// emptied waits until nothing is left in any inbox: nobody speaks any more.
func (c *cluster) emptied() error {
	return eventually(c.tb.Context(), pendingWithin, func() error {
		b, err := c.redis.backlog()
		if err == nil && !b.empty() {
			err = fmt.Errorf("%d messages are pending and %d wait, the oldest in %s", b.pending, b.waiting, b.where)
		}
		return err
	})
}

// summary is the line of figures.
func (c *checker) summary() string {
	var codes []string
	for _, code := range slices.Sorted(maps.Keys(c.errors)) {
		codes = append(codes, fmt.Sprintf("%s %d", code, c.errors[code]))
	}
	slowest := time.Duration(0)
	for _, s := range c.strikes {
		slowest = max(slowest, s.caughtUp)
	}
	return fmt.Sprintf("%d sessions, %d utterances, %d results, errors [%s]; %d strikes, %d connections lost, %d resumed, %d not recovered; "+
		"%d of %d from another instance; %d of %d spoken in full; longest to terminal %v (%s); %s; %d jobs in %d attempts, most at once %d, oversold %d, refused by nodes %d, results dropped %d; inboxes caught up in %v",
		c.talks, c.utterances, c.results, strings.Join(codes, ", "), len(c.strikes), c.reconnects, c.resumes, c.unrecovered,
		c.crossed, c.placed, c.spoken, c.speeches, c.longest.Round(time.Millisecond), c.longestOf, c.callSummary(), c.jobs, c.attempts, c.mostHeld, c.oversold, c.refused, c.dropped, slowest.Round(time.Millisecond))
}

// tell fails the test for everything that is broken. Of each kind a few have to do.
func (c *checker) tell(t *testing.T) {
	t.Helper()
	const most = 5
	count := make(map[string]int)
	for _, v := range c.broken {
		if count[v.kind]++; count[v.kind] <= most {
			t.Errorf("%s: %s", v.kind, v.evidence)
		}
	}
	for kind, n := range count {
		if n > most {
			t.Errorf("%s: %d in all", kind, n)
		}
	}
}
