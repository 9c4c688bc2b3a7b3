package pick_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// scene is one node and one job, with nothing between them until a test puts it there.
type scene struct {
	node   core.Node
	load   core.Load
	policy pick.Policy
	tts    bool
	query  pick.Query // its wish and moment are filled in when it is played
	then   []func(*fleet.Fleet, *fleet.Node)
}

func newScene(changes ...func(*scene)) *scene {
	s := &scene{
		node: *declared("a"), load: core.UnknownLoad, policy: usual(), tts: true,
		query: pick.Query{Options: &core.Options{}},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

// later adds something that happens once the node is in view.
func (s *scene) later(fn func(*fleet.Fleet, *fleet.Node)) { s.then = append(s.then, fn) }

// play asks what speaks against the node in every way there is to ask, and returns the answer.
func (s *scene) play(t *testing.T) (reason core.Reason) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.node.Capability.Normalise()
		f := fleet.New(time.Hour)
		time.Sleep(time.Minute)
		f.Update(store.NodeStatus{Node: &s.node, Load: s.load, Occupancy: store.Occupancy{Max: s.node.MaxJobs}})
		n := f.Node("a")
		for _, fn := range s.then {
			fn(f, n)
		}
		pool := f.Pool(wanted, s.tts)
		q := s.query
		q.Requirement, q.Now = &pool.Requirement, f.Now()
		picker := pick.New(f, s.policy, nil)
		reason = picker.Filter(&q, n)

		members := pool.Members()
		if members.Len() == 0 {
			if !reason.Incapable() {
				t.Errorf("the node is not in the pool, yet the objection is %q", reason)
			}
			return
		}
		s.checkRound(t, picker, q, members, reason)
	})
	return reason
}

// checkRound makes sure that a round comes to the same conclusion about a member of the pool.
func (s *scene) checkRound(t *testing.T, picker *pick.Picker, q pick.Query, members *fleet.Members, reason core.Reason) {
	t.Helper()
	type conclusion struct {
		Offered    bool
		Rest       []core.NodeID
		Capable    int
		Objections map[core.Reason]int
	}
	want := conclusion{Offered: reason == core.ReasonNone, Rest: []core.NodeID{}, Objections: map[core.Reason]int{}}
	if reason == core.ReasonNone || reason.Soft() {
		want.Rest = append(want.Rest, "a")
	}
	if !reason.Incapable() {
		want.Capable = 1
	}
	if reason != core.ReasonNone {
		want.Objections[reason] = 1
	}
	r := picker.Select(q, members)
	defer r.End()
	got := conclusion{Offered: r.Next().Node != nil}
	survey := r.Survey()
	got.Rest, got.Capable, got.Objections = ids(survey.Candidates), survey.Capable, survey.Rejections
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a round over a node with the objection %q (-want +got):\n%s", reason, diff)
	}
}
