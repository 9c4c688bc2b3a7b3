package health

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// judged is a fleet whose nodes are judged.
type judged struct {
	*Ejector
	t          rapid.TB
	store      *memstore.Store
	directions []core.Direction
}

// newJudged makes a fleet of nodes with the languages that they serve, each with so many slots.
func newJudged(t rapid.TB, slots int, nodes map[core.NodeID][]core.Lang, directions ...core.Direction) *judged {
	t.Helper()
	j := &judged{t: t, store: newStore(), directions: directions}
	j.Ejector = &Ejector{
		Store: j.store, Fleet: fleet.New(24 * time.Hour), Log: discardLog,
		Counted: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "decisions"}, []string{"decision", "reason"}),
	}
	for id, langs := range nodes {
		j.register(id, slots, langs)
	}
	return j
}

func (j *judged) register(id core.NodeID, slots int, langs []core.Lang, changes ...func(*core.Node)) {
	j.t.Helper()
	node := core.Node{ID: id, Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: slots, Callback: "http://127.0.0.1:9/", Capability: core.Capability{Semantic: langs, AnyPair: true}}}
	for _, change := range changes {
		change(&node)
	}
	node.Normalise()
	r, err := j.store.Register(context.Background(), store.RegisterParams{Node: node})
	if err != nil {
		j.t.Fatal(err)
	}
	j.Fleet.Update(r.NodeStatus)
}

// judge makes one step after 5 seconds.
func (j *judged) judge(seen Report) {
	time.Sleep(5 * time.Second)
	j.Judge(context.Background(), 1, seen, j.directions)
}

// slots returns how many slots of a node may be granted.
func (j *judged) slots(id core.NodeID) int { return j.Fleet.Node(id).Summary().Slots() }

// seenOf is what instances have seen of a node that did some of its jobs, in a fleet in which the others did theirs.
func seenOf(id core.NodeID, ended, failed int) Report {
	return Report{
		Nodes:      map[core.NodeID]observedNode{id: {attempts: attempts{ended, failed}, Directions: map[string]attempts{"en→zh": {ended, failed}}}},
		Directions: map[string]attempts{"en→zh": {ended + 1000, failed + 10}},
	}
}

var zhEN = []core.Lang{"en", "zh"}

func fiveNodes() map[core.NodeID][]core.Lang {
	return map[core.NodeID][]core.Lang{"a": zhEN, "b": zhEN, "c": zhEN, "d": zhEN, "e": zhEN}
}

// TestEjection: a node that fails is ejected for half a minute, returns with one slot, half of them and all of them, and is ejected for
// longer if it fails again. A registration changes nothing of it.
func TestEjection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudged(t, 8, fiveNodes(), enZH)
		previous := time.Duration(0)
		for times := 1; times <= 7; times++ {
			j.judge(seenOf("a", 20, 20))
			if j.slots("a") != 0 || !j.Fleet.Node("a").Declared().Ejected() {
				t.Fatalf("time %d: the node has %d slots", times, j.slots("a"))
			}
			j.register("a", 8, zhEN)
			if j.slots("a") != 0 {
				t.Fatal("a new registration ended the ejection")
			}
			began := time.Now()
			for j.slots("a") == 0 {
				j.judge(Report{})
			}
			lasted := time.Since(began)
			want := min(ejectFor<<(times-1), ejectMost)
			if lasted < want || lasted > want+want/5+10*time.Second || lasted < previous-previous/5 {
				t.Errorf("time %d: it was ejected for %v, want %v or a little more", times, lasted, want)
			}
			previous = lasted
			if j.slots("a") != 1 {
				t.Fatalf("it returned with %d slots", j.slots("a"))
			}
			j.judge(seenOf("a", 3, 0)) // it does its jobs
			if j.slots("a") != 4 {
				t.Fatalf("after one slot it has %d", j.slots("a"))
			}
			j.judge(Report{}) // it had no jobs
			if j.slots("a") != 4 {
				t.Fatalf("without a job it has %d slots", j.slots("a"))
			}
			for j.slots("a") == 4 {
				j.judge(Report{})
			}
			if j.slots("a") != 8 {
				t.Fatalf("after half of its slots it has %d", j.slots("a"))
			}
		}
		for range int(forgetAfter/(5*time.Second)) + 1 {
			j.judge(Report{})
		}
		if a := j.Fleet.Node("a").Declared().Admission; a != (core.Admission{}) {
			t.Errorf("its ejections are still remembered: %+v", a)
		}
		if got := testutil.ToFloat64(j.Counted.WithLabelValues("ejected", "failing")); got != 7 {
			t.Errorf("%v ejections were counted", got)
		}
	})
}

// TestProbation: a node that fails again on its first slots is ejected again, for longer.
func TestProbation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudged(t, 8, fiveNodes(), enZH)
		j.judge(seenOf("a", 20, 20))
		for j.slots("a") == 0 {
			j.judge(Report{})
		}
		j.judge(seenOf("a", 1, 1))
		if a := j.Fleet.Node("a").Declared().Admission; !a.Ejected() || a.Times != 2 {
			t.Errorf("after a failure on probation: %+v", a)
		}
	})
}

// TestLastNodeIsNotEjected: a node without which a direction would have none keeps its slots; an ejected one gets them back when the others
// leave.
func TestLastNodeIsNotEjected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := fiveNodes()
		nodes["a"] = []core.Lang{"en", "zh", "ja"}
		enJA := core.Direction{Src: "en", Tgt: "ja"}
		j := newJudged(t, 8, nodes, enZH, enJA)
		j.judge(seenOf("a", 20, 20))
		if j.slots("a") != 8 {
			t.Error("the only node of en→ja was ejected")
		}
		if got := testutil.ToFloat64(j.Counted.WithLabelValues("withheld", telemetry.WithheldLast)); got != 1 {
			t.Errorf("%v withheld ejections were counted", got)
		}
		j.register("f", 8, []core.Lang{"en", "zh", "ja"})
		j.judge(seenOf("a", 20, 20))
		if j.slots("a") != 0 {
			t.Error("a node was not ejected although another one has its directions")
		}
		j.Fleet.Remove("f")
		j.judge(Report{})
		if j.slots("a") != 8 {
			t.Errorf("the only node of en→ja has %d slots", j.slots("a"))
		}
	})
}

// TestNeededNodeIsNotEjectedAgainAtOnce: a node that fails, and is needed whenever another is away that comes and goes, is not ejected and
// readmitted at every step.
func TestNeededNodeIsNotEjectedAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudged(t, 8, map[core.NodeID][]core.Lang{"a": zhEN, "b": zhEN}, enZH)
		began := time.Now()
		for step := range 24 {
			if step%2 == 0 {
				j.register("b", 8, zhEN)
			} else {
				j.Fleet.Remove("b")
			}
			j.judge(seenOf("a", 20, 20))
		}
		readmitted := testutil.ToFloat64(j.Counted.WithLabelValues("readmitted", string(core.AdmissionFailing)))
		if most := time.Since(began) / ejectFor; readmitted == 0 || readmitted > float64(most) {
			t.Errorf("readmitted %v times in %v, want between 1 and %d", readmitted, time.Since(began), most)
		}
	})
}

// TestStaleLeaderEjectsNobody: the decision of a leader with a lower fence changes nothing.
func TestStaleLeaderEjectsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudged(t, 8, fiveNodes(), enZH)
		j.Judge(t.Context(), 7, seenOf("a", 20, 20), j.directions)
		if j.slots("a") != 0 {
			t.Fatal("not ejected")
		}
		time.Sleep(time.Minute)
		j.Judge(t.Context(), 6, Report{}, j.directions)
		if j.slots("a") != 0 {
			t.Error("a stale leader has readmitted a node")
		}
	})
}

// TestLift: when ejection is turned off, the nodes that were ejected get their slots back.
func TestLift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudged(t, 8, fiveNodes(), enZH)
		j.judge(seenOf("a", 20, 20))
		j.Lift(t.Context(), 2, seenOf("a", 20, 20), j.directions)
		if a := j.Fleet.Node("a").Declared().Admission; a != (core.Admission{}) || j.slots("a") != 8 {
			t.Errorf("%d slots, %+v", j.slots("a"), a)
		}
	})
}

// TestEjectionKeepsHalf: whatever nodes fail in whatever order, each direction keeps a node and half of its slots.
func TestEjectionKeepsHalf(t *testing.T) {
	langs := []core.Lang{"de", "en", "fr", "ja", "zh"}
	var directions []core.Direction
	for _, src := range langs {
		for _, tgt := range langs {
			if src != tgt {
				directions = append(directions, core.Direction{Src: src, Tgt: tgt})
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		count, slots := rapid.IntRange(1, 8).Draw(rt, "nodes"), rapid.IntRange(1, 6).Draw(rt, "slots")
		nodes := make(map[core.NodeID][]core.Lang)
		for i := range count {
			some := rapid.Permutation(langs).Draw(rt, "langs")
			nodes[core.NodeID(fmt.Sprint("n", i))] = some[:rapid.IntRange(2, 4).Draw(rt, "number of langs")]
		}
		steps := rapid.SliceOfN(rapid.SliceOfN(rapid.Bool(), count, count), 1, 30).Draw(rt, "which nodes fail")
		broken := ""
		synctest.Test(t, func(*testing.T) {
			j := newJudged(rt, slots, nodes, directions...)
			for _, failing := range steps {
				seen := Report{}
				for i, fails := range failing {
					if fails {
						seen.Merge(seenOf(core.NodeID(fmt.Sprint("n", i)), 20, 20))
					}
				}
				j.judge(seen)
				for _, d := range directions {
					if broken = j.uncovered(d); broken != "" {
						return
					}
				}
			}
		})
		if broken != "" {
			rt.Fatal(broken)
		}
	})
}

// uncovered says what a direction lacks: a node that may get jobs, or half of its slots. Empty: nothing, or no node serves it.
func (j *judged) uncovered(d core.Direction) string {
	r := core.NewRequirement(d, false)
	all, ejected, left := 0, 0, 0
	for n := range j.Fleet.All() {
		declared := n.Declared()
		if r.Mismatch(&declared.Capability) != core.ReasonNone {
			continue
		}
		all += declared.MaxJobs
		if declared.Ejected() {
			ejected += declared.MaxJobs
		} else {
			left++
		}
	}
	if all > 0 && (left == 0 || 2*ejected > all) {
		return fmt.Sprintf("%v has %d nodes, and %d of its %d slots are those of ejected nodes", d, left, ejected, all)
	}
	return ""
}

// recordEvents records events and returns a function that returns those of one kind so far.
func (j *judged) recordEvents(kind store.EventKind) (details func() []string) {
	j.Events = journal.NewEvents("i-1", prometheus.NewCounter(prometheus.CounterOpts{Name: "dropped"}), discardLog)
	return func() (details []string) {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		j.Events.Run(ended, j.store) // writes what is queued
		page, err := journal.EventLog(j.store).Read(context.Background(), store.ReadLogParams{Limit: 100})
		if err != nil {
			j.t.Fatal(err)
		}
		for _, e := range page.Entries {
			if e.Kind == kind {
				details = append(details, string(e.Node)+": "+e.Detail)
			}
		}
		return details
	}
}

// TestPoolsKeepTheirLastNode: a node without which a pool would have none for a direction, or the tenant that is bound to it, keeps its
// slots whatever it does, although the fleet has many others; the event says so once.
func TestPoolsKeepTheirLastNode(t *testing.T) {
	type nodes = map[core.NodeID][]func(*core.Node)
	has := func(service string) func(*core.Node) {
		return func(n *core.Node) { n.Services = []core.Service{{ID: service, Status: core.ServiceReady}} }
	}
	ofAcme := func(n *core.Node) { n.Tenant = "acme" }
	drained := func(n *core.Node) { n.Health = core.HealthDraining }
	for name, c := range map[string]struct {
		nodes nodes
		kept  string // for what; empty: it is ejected
	}{
		"the only one":                     {nodes{"a": {has("bound")}}, "en→zh in pool bound"},
		"the others are drained":           {nodes{"a": {has("bound")}, "b": {has("bound"), drained}, "c": {has("bound"), drained}}, "en→zh in pool bound"},
		"the others are of a tenant":       {nodes{"a": {has("bound")}, "b": {has("bound"), ofAcme}}, "en→zh in pool bound"},
		"the only one of the bound tenant": {nodes{"a": {has("bound"), ofAcme}}, "en→zh in pool bound for tenant acme"},
		"there are others":                 {nodes{"a": {has("bound")}, "b": {has("bound")}}, ""},
		"shared ones serve the tenant":     {nodes{"a": {has("bound"), ofAcme}, "b": {has("bound")}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newJudged(t, 8, nil, enZH)
				for id, changes := range c.nodes {
					j.register(id, 8, zhEN, changes...)
				}
				for i := range 10 {
					j.register(core.NodeID(fmt.Sprint("other-", i)), 8, zhEN, has("other"))
				}
				j.Fleet.SetPools(&core.Pools{
					Defined:   []core.PoolDefinition{{ID: "bound", RequiredServices: []string{"bound"}}, {ID: "rest", RequiredServices: []string{"other"}}},
					Overrides: map[core.TenantID]core.PoolID{"acme": "bound"},
				})
				details := j.recordEvents(store.EventCoverage)
				for range 3 {
					j.judge(seenOf("a", 20, 20))
				}
				var want []string
				if c.kept != "" {
					want = []string{"a: failing, and not ejected: it is the last ready node of " + c.kept}
				}
				if diff := cmp.Diff(want, details()); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				if ejected := j.slots("a") == 0; ejected != (c.kept == "") {
					t.Errorf("ejected: %v", ejected)
				}
				if c.kept == "" {
					return
				}
				j.judge(Report{})
				j.judge(seenOf("a", 20, 20)) // it fails again
				if got := details(); len(got) != 2 {
					t.Errorf("events after it failed again: %v", got)
				}
			})
		})
	}
}
