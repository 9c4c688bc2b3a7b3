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

// A node that is believed full is not in the sample, but in the survey before a refusal.
func TestSurveyOrdersFreeThenFullThenSoftRejected(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		f := poolOf(6)
		q := f.query(func(q *pick.Query) { q.LastNode = nodeID(5) })
		for i, inFlight := range []int{4, 0, 5, 3, 0, 0} {
			f.Observe(f.node(i), inFlight, 4, q.Now)
		}
		f.node(4).RecordMissedACK(q.Now)
		r := selectIn(pick.New(f.Fleet, defaultPolicy(), seeded(seed)), q, f.pool)

		sample := candidates(r)
		slices.Sort(sample)
		if diff := cmp.Diff([]core.NodeID{nodeID(1), nodeID(3)}, sample); diff != "" {
			t.Fatalf("seed %d: sample (-want +got):\n%s", seed, diff)
		}
		survey := r.Survey()
		r.End()
		rest := ids(survey.Candidates)
		for at := 0; at < len(rest); at += 2 { // within a group the order is random
			slices.Sort(rest[at:min(at+2, len(rest))])
		}
		if diff := cmp.Diff([]core.NodeID{nodeID(1), nodeID(3), nodeID(0), nodeID(2), nodeID(4), nodeID(5)}, rest); diff != "" {
			t.Fatalf("seed %d: rest (-want +got):\n%s", seed, diff)
		}
		if survey.Capable != 6 {
			t.Errorf("capable %d, want 6", survey.Capable)
		}
		// Only the ledger decides that a node is full.
		if diff := cmp.Diff(map[core.Reason]int{core.ReasonSetAside: 1, core.ReasonSpread: 1}, survey.Rejections); diff != "" {
			t.Errorf("rejections (-want +got):\n%s", diff)
		}
	}
}

// The survey includes the nodes of the sample: a node that was full a moment ago may have a
// free slot now.
func TestSurveyIncludesSampledNodes(t *testing.T) {
	t.Parallel()
	f := poolOf(3)
	r := selectFrom(t, pick.New(f.Fleet, defaultPolicy(), nil), f.query(), f.pool)
	sample := candidates(r)
	rest := ids(r.Survey().Candidates)
	slices.Sort(sample)
	slices.Sort(rest)
	if diff := cmp.Diff(sample, rest); diff != "" {
		t.Errorf("survey's candidates (-sample +survey):\n%s", diff)
	}
}

func TestSurveyIsLimitedToScanMax(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		free, full, soft int
		scanMax          int
		want             []string // the groups of the survey's candidates
	}{
		{"all fit", 2, 2, 2, 6, []string{"free", "free", "full", "full", "soft", "soft"}},
		{"soft-rejected nodes are dropped first", 2, 2, 2, 5, []string{"free", "free", "full", "full", "soft"}},
		{"then the full", 2, 2, 2, 3, []string{"free", "free", "full"}},
		{"then those with a free slot", 2, 2, 2, 1, []string{"free"}},
		{"none at all", 2, 2, 2, 0, []string{}},
		{"only full", 0, 3, 0, 2, []string{"full", "full"}},
		{"only soft-rejected", 0, 0, 3, 2, []string{"soft", "soft"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := poolOf(c.free + c.full + c.soft)
			q := f.query()
			group := make(map[core.NodeID]string)
			for i := range f.Len() {
				n := f.node(i)
				switch {
				case i < c.soft: // first in the pool, so that the pool's order is not what sorts them
					n.RecordMissedACK(q.Now)
					group[n.ID()] = "soft"
				case i < c.soft+c.full:
					f.Observe(n, 4, 4, q.Now)
					group[n.ID()] = "full"
				default:
					group[n.ID()] = "free"
				}
			}
			policy := defaultPolicy()
			policy.ScanMax = c.scanMax
			survey := selectFrom(t, pick.New(f.Fleet, policy, nil), q, f.pool).Survey()
			got := []string{}
			for _, m := range survey.Candidates {
				got = append(got, group[m.ID()])
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("survey's candidates (-want +got):\n%s", diff)
			}
			// The limit applies to the candidates, not to the counts.
			if survey.Capable != f.Len() || survey.Rejections[core.ReasonSetAside] != c.soft {
				t.Errorf("capable %d and %d set aside, want %d and %d", survey.Capable, survey.Rejections[core.ReasonSetAside], f.Len(), c.soft)
			}
		})
	}
}

// For any fleet, a survey counts the reasons that Filter returns, and its candidates are the nodes that pass or are
// rejected for a soft reason.
func TestSurveyAgreesWithFilter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := emptyPool()
		kinds := rapid.SliceOfN(rapid.SampledFrom([]string{
			"fine", "fine", "full", "degraded", "tenant", "model", "slots", "ejected", "limited", "aside", "spread", "tried", "cpu",
		}), 0, 40).Draw(t, "kinds")
		q := f.query(func(q *pick.Query) { q.Options = &core.Options{RequiredModels: []string{"m"}} })
		q.Now += fleet.Instant(time.Second)
		for i, kind := range kinds {
			n := declared(nodeID(i), func(n *core.Node) { n.Models = []string{"m"} })
			s := status(n)
			switch kind {
			case "degraded":
				n.Health = core.HealthDegraded
			case "tenant":
				n.Tenant = "other"
			case "model":
				n.Models = nil
			case "slots":
				n.MaxJobs, s.Max = 0, 0
			case "ejected":
				limitedTo(0)(n)
			case "limited":
				limitedTo(1)(n)
			case "tried":
				q.Tried = append(q.Tried, n.ID)
			case "spread":
				q.LastNode = n.ID // only the last of these is rejected
			case "cpu":
				s.Load.CPU = 1
			}
			f.Update(s)
			switch kind {
			case "full":
				f.Observe(f.Node(n.ID), 4, 4, q.Now)
			case "aside":
				f.Node(n.ID).RecordMissedACK(q.Now)
			}
		}
		picker := pick.New(f.Fleet, defaultPolicy(), seeded(rapid.Uint64().Draw(t, "seed")))
		want := pick.Survey{Rejections: map[core.Reason]int{}}
		asked := []core.NodeID{}
		for m := range f.pool.All() {
			reason := picker.Filter(&q, m.Node)
			if reason != core.ReasonNone {
				want.Rejections[reason]++
			}
			if !reason.Incapable() {
				want.Capable++
			}
			if reason == core.ReasonNone || reason.Soft() {
				asked = append(asked, m.ID())
			}
		}
		r := selectIn(picker, q, f.pool)
		defer r.End()
		got := r.Survey()
		rest := ids(got.Candidates)
		slices.Sort(rest)
		slices.Sort(asked)
		got.Candidates = nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("survey (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(asked, rest); diff != "" {
			t.Fatalf("survey's candidates (-want +got):\n%s", diff)
		}
	})
}
