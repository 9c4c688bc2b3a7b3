package pick_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
)

// What is believed about fullness keeps a node out of the sample, but not out of the search before a refusal.
func TestFullNodesAreAskedAfterThoseWithRoomAndBeforeTheUnloved(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		h := hallOf(6)
		q := h.query(func(q *pick.Query) { q.Avoid = nth(5) })
		for i, inFlight := range []int{4, 0, 5, 3, 0, 0} {
			h.Observe(h.node(i), inFlight, 4, q.Now)
		}
		h.node(4).RecordMissedACK(q.Now)
		r := pick.New(h.Fleet, usual(), seeded(seed)).Begin(q, h.pool.Members())

		sample := offers(r)
		slices.Sort(sample)
		if diff := cmp.Diff([]core.NodeID{nth(1), nth(3)}, sample); diff != "" {
			t.Fatalf("seed %d: sample (-want +got):\n%s", seed, diff)
		}
		survey := r.Survey()
		r.End()
		rest := ids(survey.Rest)
		for at := 0; at < len(rest); at += 2 { // within a group any order will do
			slices.Sort(rest[at:min(at+2, len(rest))])
		}
		if diff := cmp.Diff([]core.NodeID{nth(1), nth(3), nth(0), nth(2), nth(4), nth(5)}, rest); diff != "" {
			t.Fatalf("seed %d: rest (-want +got):\n%s", seed, diff)
		}
		if survey.Capable != 6 {
			t.Errorf("capable %d, want 6", survey.Capable)
		}
		// Full is for the ledger to say.
		if diff := cmp.Diff(map[core.Reason]int{core.ReasonSetAside: 1, core.ReasonSpread: 1}, survey.Objections); diff != "" {
			t.Errorf("objections (-want +got):\n%s", diff)
		}
	}
}

// Whatever the sample came to, the survey looks at everybody again: a node that was refused a moment ago may
// have room now.
func TestSurveyIncludesWhatWasOffered(t *testing.T) {
	t.Parallel()
	h := hallOf(3)
	r := begin(t, pick.New(h.Fleet, usual(), nil), h.query(), h.pool.Members())
	sample := offers(r)
	rest := ids(r.Survey().Rest)
	slices.Sort(sample)
	slices.Sort(rest)
	if diff := cmp.Diff(sample, rest); diff != "" {
		t.Errorf("rest (-sample +rest):\n%s", diff)
	}
}

func TestSurveyIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		room, full, soft int
		scanMax          int
		want             []string // how the rest is made up
	}{
		{"all fit", 2, 2, 2, 6, []string{"room", "room", "full", "full", "soft", "soft"}},
		{"the unloved are cut first", 2, 2, 2, 5, []string{"room", "room", "full", "full", "soft"}},
		{"then the full", 2, 2, 2, 3, []string{"room", "room", "full"}},
		{"then those with room", 2, 2, 2, 1, []string{"room"}},
		{"none at all", 2, 2, 2, 0, []string{}},
		{"only full", 0, 3, 0, 2, []string{"full", "full"}},
		{"only unloved", 0, 0, 3, 2, []string{"soft", "soft"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := hallOf(c.room + c.full + c.soft)
			q := h.query()
			group := make(map[core.NodeID]string)
			for i := range h.Len() {
				n := h.node(i)
				switch {
				case i < c.soft: // first in the pool, so that the pool's order is not what sorts them
					n.RecordMissedACK(q.Now)
					group[n.ID()] = "soft"
				case i < c.soft+c.full:
					h.Observe(n, 4, 4, q.Now)
					group[n.ID()] = "full"
				default:
					group[n.ID()] = "room"
				}
			}
			policy := usual()
			policy.ScanMax = c.scanMax
			survey := begin(t, pick.New(h.Fleet, policy, nil), q, h.pool.Members()).Survey()
			got := []string{}
			for _, m := range survey.Rest {
				got = append(got, group[m.ID()])
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("rest (-want +got):\n%s", diff)
			}
			// The cut is of who is asked, not of who is counted.
			if survey.Capable != h.Len() || survey.Objections[core.ReasonSetAside] != c.soft {
				t.Errorf("capable %d and %d set aside, want %d and %d", survey.Capable, survey.Objections[core.ReasonSetAside], h.Len(), c.soft)
			}
		})
	}
}

// However mixed the fleet, a survey counts what Objection says of each node, and asks those that nothing but a
// preference speaks against.
func TestSurveyCountsWhatSpeaksAgainstEach(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := newHall()
		kinds := rapid.SliceOfN(rapid.SampledFrom([]string{
			"fine", "fine", "full", "ill", "tenant", "model", "slots", "aside", "spread", "tried", "cpu",
		}), 0, 40).Draw(t, "kinds")
		q := h.query(func(q *pick.Query) { q.Options = &core.Options{RequiredModels: []string{"m"}} })
		q.Now += fleet.Instant(time.Second)
		for i, kind := range kinds {
			n := declared(nth(i), func(n *core.Node) { n.Capability.Models = []string{"m"} })
			s := status(n)
			switch kind {
			case "ill":
				n.Health = core.HealthDegraded
			case "tenant":
				n.Tenant = "other"
			case "model":
				n.Capability.Models = nil
			case "slots":
				n.MaxJobs, s.Max = 0, 0
			case "tried":
				q.Tried = append(q.Tried, n.ID)
			case "spread":
				q.Avoid = n.ID // the last one counts; the others are fine after all
			case "cpu":
				s.Load.CPU = 1
			}
			h.Update(s)
			switch kind {
			case "full":
				h.Observe(h.Node(n.ID), 4, 4, q.Now)
			case "aside":
				h.Node(n.ID).RecordMissedACK(q.Now)
			}
		}
		picker := pick.New(h.Fleet, usual(), seeded(rapid.Uint64().Draw(t, "seed")))
		want := pick.Survey{Objections: map[core.Reason]int{}}
		asked := []core.NodeID{}
		for m := range h.pool.Members().All() {
			reason := picker.Objection(&q, m.Node)
			if reason != core.ReasonNone {
				want.Objections[reason]++
			}
			if !reason.Incapable() {
				want.Capable++
			}
			if reason == core.ReasonNone || reason.Soft() {
				asked = append(asked, m.ID())
			}
		}
		r := picker.Begin(q, h.pool.Members())
		defer r.End()
		got := r.Survey()
		rest := ids(got.Rest)
		slices.Sort(rest)
		slices.Sort(asked)
		got.Rest = nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("survey (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(asked, rest); diff != "" {
			t.Fatalf("rest (-want +got):\n%s", diff)
		}
	})
}
