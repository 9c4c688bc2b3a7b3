package guard

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// judged is a fleet whose nodes are judged.
type judged struct {
	*Ejector
	t          rapid.TB
	store      *faultyStore
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

func (j *judged) register(id core.NodeID, slots int, langs []core.Lang) {
	j.t.Helper()
	node := core.Node{ID: id, Health: core.HealthReady, MaxJobs: slots, Callback: "http://127.0.0.1:9/", Capability: core.Capability{Semantic: langs, AnyPair: true}}
	node.Capability.Normalise()
	r, err := j.store.Register(context.Background(), store.RegisterParams{Node: node})
	if err != nil {
		j.t.Fatal(err)
	}
	j.Fleet.Update(r.NodeStatus)
}

// judge makes one step after 5 seconds.
func (j *judged) judge(seen Health) {
	time.Sleep(5 * time.Second)
	j.Judge(context.Background(), 1, seen, j.directions)
}

// slots returns how many slots of a node may be granted.
func (j *judged) slots(id core.NodeID) int { return j.Fleet.Node(id).Summary().Slots() }

// seenOf is what instances have seen of a node that did some of its jobs, in a fleet in which the others did theirs.
func seenOf(id core.NodeID, ended, failed int) Health {
	return Health{
		Nodes:      map[core.NodeID]observedNode{id: {attempts: attempts{ended, failed}, Directions: map[string]attempts{"en→zh": {ended, failed}}}},
		Directions: map[string]attempts{"en→zh": {ended + 1000, failed + 10}},
	}
}

var zhEN = []core.Lang{"en", "zh"}

func fiveNodes() map[core.NodeID][]core.Lang {
	return map[core.NodeID][]core.Lang{"a": zhEN, "b": zhEN, "c": zhEN, "d": zhEN, "e": zhEN}
}

// TestOutliers: what makes a node an outlier, and what does not.
func TestOutliers(t *testing.T) {
	node := func(o observedNode, ended, failed int, all attempts) Health {
		o.attempts, o.Directions = attempts{ended, failed}, map[string]attempts{"en→zh": {ended, failed}}
		return Health{Nodes: map[core.NodeID]observedNode{"n": o}, Directions: map[string]attempts{"en→zh": all}}
	}
	for _, c := range []struct {
		name string
		seen Health
		want core.AdmissionReason
	}{
		{"it fails, the others do not", node(observedNode{}, 10, 3, attempts{110, 3}), core.AdmissionFailing},
		{"too few attempts", node(observedNode{}, 9, 9, attempts{109, 9}), ""},
		{"not 20 points above the others", node(observedNode{}, 100, 19, attempts{1100, 19}), ""},
		{"not three times as often as the others", node(observedNode{}, 10, 8, attempts{110, 48}), ""},
		{"all fail", node(observedNode{}, 100, 100, attempts{1100, 1100}), ""},
		{"it alone has the direction, and fails", node(observedNode{}, 10, 10, attempts{10, 10}), core.AdmissionFailing},
		{"two missed ACKs in a row", node(observedNode{Missed: 2}, 2, 2, attempts{102, 2}), ""},
		{"three missed ACKs in a row", node(observedNode{Missed: 3}, 3, 3, attempts{103, 3}), core.AdmissionACKTimeouts},
		{"one overdue job", node(observedNode{Overdue: 1}, 1, 1, attempts{101, 1}), ""},
		{"two overdue jobs in a row", node(observedNode{Overdue: 2}, 2, 2, attempts{102, 2}), core.AdmissionSilent},
		{"unknown", Health{}, ""},
	} {
		if got := c.seen.outlier("n"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestTracker: attempts count for the window, those in a row until the node does a job, and only those that say something about the node.
func TestTracker(t *testing.T) {
	tr, now := newTracker(), time.Unix(1_800_000_000, 0)
	tr.advance(now)
	for range 3 {
		tr.ended("a", enZH, core.ReasonACKTimeout)
		tr.ended("b", enZH, core.ReasonAttemptTimeout)
		tr.ended("c", enZH, core.ReasonNone)
	}
	for _, r := range []core.Reason{core.ReasonNodeBusy, core.ReasonCancelled, core.ReasonAudioLost, core.ReasonModelNotAvailable, core.ReasonNodeLost, core.ReasonDeadline} {
		tr.ended("d", enZH, r)
	}
	seen := tr.observed()
	if a, b := seen.Nodes["a"], seen.Nodes["b"]; a.Missed != 3 || a.Failed != 3 || b.Overdue != 3 || b.Missed != 0 {
		t.Errorf("a %+v, b %+v", a, b)
	}
	if _, known := seen.Nodes["c"]; known || len(seen.Nodes) != 2 || seen.Directions["en→zh"] != (attempts{9, 6}) {
		t.Errorf("seen: %+v", seen)
	}
	tr.acknowledged("a")
	tr.ended("b", enZH, core.ReasonNone)
	if seen := tr.observed(); seen.Nodes["a"].Missed != 0 || seen.Nodes["b"].Overdue != 0 || seen.Nodes["b"].Failed != 3 {
		t.Errorf("after they answered: %+v", seen.Nodes)
	}
	tr.advance(now.Add(windowStep * (windowSteps - 1)))
	if seen := tr.observed(); seen.Nodes["a"].Failed != 3 {
		t.Errorf("at the end of the window: %+v", seen.Nodes)
	}
	tr.advance(now.Add(windowStep * windowSteps))
	if seen := tr.observed(); len(seen.Nodes) != 0 || len(seen.Directions) != 0 || len(tr.nodes) != 0 {
		t.Errorf("after the window: %+v, %d nodes", seen, len(tr.nodes))
	}
}

// TestTrackerIsBounded: what an instance publishes of nodes and directions is bounded, whatever their names.
func TestTrackerIsBounded(t *testing.T) {
	tr := newTracker()
	tr.advance(time.Unix(1_800_000_000, 0))
	for i := range 5000 {
		d := core.Direction{Src: core.Lang(fmt.Sprint("x", i)), Tgt: "zh"}
		tr.ended(core.NodeID(fmt.Sprint("n", i)), d, core.ReasonNodeFailed)
		tr.ended("one", d, core.ReasonNodeFailed)
	}
	seen := tr.observed()
	if len(seen.Nodes) != maxUnhealthy || len(seen.Directions) > maxNames+1 || len(seen.Nodes["one"].Directions) > maxNodeDirections+1 || seen.Nodes["one"].Failed != 5000 {
		t.Errorf("%d nodes, %d directions, of one node %d with %d failures", len(seen.Nodes), len(seen.Directions), len(seen.Nodes["one"].Directions), seen.Nodes["one"].Failed)
	}
}

// TestMergeOfInstances: failures of all instances are added up. Missed ACKs in a row are added up only if no instance got an ACK.
func TestMergeOfInstances(t *testing.T) {
	one := Health{Nodes: map[core.NodeID]observedNode{"n": {attempts: attempts{2, 2}, Missed: 2}}, Directions: map[string]attempts{"en→zh": {10, 2}}}
	var all Health
	all.merge(one)
	all.merge(one)
	if n := all.Nodes["n"]; n.Missed != 4 || n.Failed != 4 || all.Directions["en→zh"] != (attempts{20, 4}) {
		t.Errorf("without an ACK: %+v", all)
	}
	all = Health{Nodes: map[core.NodeID]observedNode{"n": {attempts: attempts{2, 2}, Missed: 2, Acked: 1}}}
	all.merge(one)
	if n := all.Nodes["n"]; n.Missed != 2 {
		t.Errorf("with an ACK: %+v", n)
	}
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
				j.judge(Health{})
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
			j.judge(Health{}) // it had no jobs
			if j.slots("a") != 4 {
				t.Fatalf("without a job it has %d slots", j.slots("a"))
			}
			for j.slots("a") == 4 {
				j.judge(Health{})
			}
			if j.slots("a") != 8 {
				t.Fatalf("after half of its slots it has %d", j.slots("a"))
			}
		}
		for range int(forgetAfter/(5*time.Second)) + 1 {
			j.judge(Health{})
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
			j.judge(Health{})
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
		if got := testutil.ToFloat64(j.Counted.WithLabelValues("withheld", neededAsLast)); got != 1 {
			t.Errorf("%v withheld ejections were counted", got)
		}
		j.register("f", 8, []core.Lang{"en", "zh", "ja"})
		j.judge(seenOf("a", 20, 20))
		if j.slots("a") != 0 {
			t.Error("a node was not ejected although another one has its directions")
		}
		j.Fleet.Remove("f")
		j.judge(Health{})
		if j.slots("a") != 8 {
			t.Errorf("the only node of en→ja has %d slots", j.slots("a"))
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
		j.Judge(t.Context(), 6, Health{}, j.directions)
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
				seen := Health{}
				for i, fails := range failing {
					if fails {
						seen.merge(seenOf(core.NodeID(fmt.Sprint("n", i)), 20, 20))
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

// TestFailuresLeaveTheWindow checks that a node is listed while it has a failure in the window, and not longer.
func TestFailuresLeaveTheWindow(t *testing.T) {
	t.Parallel()
	start := time.Unix(0, 0).Add(1000 * windowStep)
	d := core.Direction{Src: "en", Tgt: "zh"}
	tr := newTracker()
	for second := range 90 {
		tr.advance(start.Add(time.Duration(second) * time.Second))
		reason := core.ReasonNone
		if second%60 == 3 {
			reason = core.ReasonNodeFailed
		}
		tr.ended("n1", d, reason)
		tr.ended("n2", d, core.ReasonNone)
		// The step of the failure is 0, and the window has windowSteps steps.
		_, listed := tr.observed().Nodes["n1"]
		if want := second%60 >= 3 && second%60/int(windowStep/time.Second) < windowSteps; listed != want {
			t.Errorf("after %d s the node is listed: %v, want %v", second, listed, want)
		}
		if _, listed := tr.observed().Nodes["n2"]; listed {
			t.Errorf("after %d s a node without failures is listed", second)
		}
	}
}
