package pick_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store"
)

var direction = core.Direction{Src: "en", Tgt: "de"}

// heartbeatPolicy is the policy of the default configuration.
func heartbeatPolicy() pick.Policy {
	return pick.Policy{
		SampleK: 20, ScanMax: 512, StaleAfter: 15 * time.Second, LateAfter: 10 * time.Second, Shuffle: true,
		CPUMax: 0.95, GPUMax: 0.98, MemoryMax: 0.95,
	}
}

// defaultPolicy is the same for nodes that send no heartbeats, however long a test takes.
func defaultPolicy() pick.Policy {
	p := heartbeatPolicy()
	p.StaleAfter, p.LateAfter = time.Hour, time.Hour
	return p
}

// seeded returns a generator that gives the same numbers in every run.
func seeded(seed uint64) func(int) int { return rand.New(rand.NewPCG(seed, 1)).IntN }

// declared returns a declaration: ready, reachable, four slots, English and German both ways.
func declared(id core.NodeID, changes ...func(*core.Node)) *core.Node {
	n := &core.Node{
		ID: id, Epoch: 1, Revision: 1, Version: 1,
		Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 4, Callback: "http://" + string(id),
			Capability: core.Capability{Semantic: core.NewLangSet("de", "en"), TTS: core.NewLangSet("de"), AnyPair: true}},
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

// limitedTo limits the slots that may be granted.
func limitedTo(slots int) func(*core.Node) {
	return func(n *core.Node) {
		n.Admission = core.Admission{Limited: true, Slots: slots, Reason: core.AdmissionFailing, Times: 1}
	}
}

func status(n *core.Node) store.NodeStatus {
	return store.NodeStatus{Node: n, Load: core.UnknownLoad, Occupancy: store.Occupancy{Max: n.MaxJobs, Withheld: n.MaxJobs - n.Slots()}}
}

// poolFixture is a fleet whose pool for the direction has its nodes in the order in which they were added.
type poolFixture struct {
	*fleet.Fleet
	pool *fleet.Index
}

// emptyPool makes the pool first: a pool that is made from a fleet with nodes has them in no particular order, and
// tests that count by position would differ from run to run.
func emptyPool() *poolFixture {
	f := fleet.New(time.Hour)
	return &poolFixture{f, f.Route(direction, false).Stops[0].Index}
}

// poolOf returns a pool of equal nodes.
func poolOf(nodes int) *poolFixture {
	f := emptyPool()
	for i := range nodes {
		f.Update(status(declared(nodeID(i))))
	}
	return f
}

func nodeID(i int) core.NodeID { return core.NodeID(fmt.Sprintf("n%05d", i)) }

// node returns the node that was added i-th.
func (f *poolFixture) node(i int) *fleet.Node {
	v := f.pool.View()
	return v.At(v.SlotOf(i)).Node
}

// query returns the query of a job without requirements, as of now.
func (f *poolFixture) query(changes ...func(*pick.Query)) pick.Query {
	q := pick.Query{Requirement: f.pool.Requirement, Options: &core.Options{}, Now: f.Now()}
	for _, change := range changes {
		change(&q)
	}
	return q
}

// candidates returns all candidates of a selection, in order.
func candidates(r *pick.Selection) []core.NodeID {
	all := []core.NodeID{}
	for m := r.Next(); m.Node != nil; m = r.Next() {
		all = append(all, m.ID())
	}
	return all
}

func ids(members []fleet.Member) []core.NodeID {
	all := []core.NodeID{}
	for _, m := range members {
		all = append(all, m.ID())
	}
	return all
}

// selectIn starts a selection among the members of one index.
func selectIn(p *pick.Picker, q pick.Query, index *fleet.Index) *pick.Selection {
	s := p.Select(q, p.RouteOf(index, q.Tenant), pick.Eligible, "")
	s.NextPool()
	return s
}

// selectFrom starts a selection that ends with the test.
func selectFrom(t *testing.T, p *pick.Picker, q pick.Query, members *fleet.Index) *pick.Selection {
	t.Helper()
	r := selectIn(p, q, members)
	t.Cleanup(r.End)
	return r
}

// filterCase is one node and one job that the node passes all filters for, until a test changes either.
type filterCase struct {
	node   core.Node
	load   core.Load
	policy pick.Policy
	tts    bool
	query  pick.Query // Requirement and Now are set by evaluate
	events []func(*fleet.Fleet, *fleet.Node)
}

func newFilterCase(changes ...func(*filterCase)) *filterCase {
	s := &filterCase{
		node: *declared("a"), load: core.UnknownLoad, policy: heartbeatPolicy(), tts: true,
		query: pick.Query{Options: &core.Options{}},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

// after adds an event that happens once the node is in the fleet.
func (s *filterCase) after(fn func(*fleet.Fleet, *fleet.Node)) { s.events = append(s.events, fn) }

// evaluate filters the node in every way that the package offers, and returns the reason.
func (s *filterCase) evaluate(t *testing.T) (reason core.Reason) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.node.Normalise()
		f := fleet.New(time.Hour)
		time.Sleep(time.Minute)
		st := status(&s.node)
		st.Load = s.load
		f.Update(st)
		n := f.Node("a")
		for _, fn := range s.events {
			fn(f, n)
		}
		pool := f.Route(direction, s.tts).Stops[0].Index
		q := s.query
		q.Requirement, q.Now = pool.Requirement, f.Now()
		picker := pick.New(f, s.policy, nil)
		reason = picker.Filter(&q, n)

		members := pool
		if members.Len() == 0 {
			if !reason.Incapable() {
				t.Errorf("the node is not in the pool, but the reason is %q", reason)
			}
			return
		}
		s.checkSelection(t, picker, q, members, reason)
	})
	return reason
}

// checkSelection checks that a selection and its survey agree with the filter about a member of the pool.
func (s *filterCase) checkSelection(t *testing.T, picker *pick.Picker, q pick.Query, members *fleet.Index, reason core.Reason) {
	t.Helper()
	type conclusion struct {
		Candidate  bool
		Candidates []core.NodeID
		Capable    int
		Rejections map[core.Reason]int
	}
	want := conclusion{Candidate: reason == core.ReasonNone, Candidates: []core.NodeID{}, Rejections: map[core.Reason]int{}}
	if reason == core.ReasonNone || reason.Soft() {
		want.Candidates = append(want.Candidates, "a")
	}
	if !reason.Incapable() {
		want.Capable = 1
	}
	if reason != core.ReasonNone {
		want.Rejections[reason] = 1
	}
	r := selectIn(picker, q, members)
	defer r.End()
	got := conclusion{Candidate: r.Next().Node != nil}
	survey := r.Survey()
	got.Candidates, got.Capable, got.Rejections = ids(survey.Candidates), survey.Capable, survey.Rejections
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a selection over a node with the reason %q (-want +got):\n%s", reason, diff)
	}
}
