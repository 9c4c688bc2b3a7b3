package fleet

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// marked returns which of the services are marked; nil if the node is not in view.
func marked(f *Fleet, id core.NodeID, services ...string) map[string]bool {
	n := f.Node(id)
	if n == nil {
		return nil
	}
	found := make(map[string]bool)
	for _, service := range services {
		if n.Marked(&core.Service{ID: service}, f.Now()) {
			found[service] = true
		}
	}
	return found
}

func TestMarksExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := agedFleet()
		f.Update(status(declared("a")))
		f.Update(status(declared("b")))
		mark := func(service string, d time.Duration) {
			f.Mark(store.Mark{Node: "a", Service: service, Epoch: 1, For: d})
		}
		check := func(when string, want map[string]bool) {
			t.Helper()
			if diff := cmp.Diff(want, marked(f, "a", "asr", "nmt", "tts")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
			if got := marked(f, "b", "asr", "nmt", "tts"); len(got) != 0 {
				t.Errorf("%s: marks of another node: %v", when, got)
			}
		}

		check("at first", map[string]bool{})
		mark("asr", 60*time.Second)
		time.Sleep(10 * time.Second)
		mark("nmt", 20*time.Second)
		check("marked", map[string]bool{"asr": true, "nmt": true})
		time.Sleep(20*time.Second - 1)
		check("just before the second ends", map[string]bool{"asr": true, "nmt": true})
		time.Sleep(time.Nanosecond)
		check("as the second ends", map[string]bool{"asr": true})
		mark("tts", 10*time.Second)
		if got := len(*f.Node("a").marks.Load()); got != 2 {
			t.Errorf("%d marks are kept, want the 2 that hold", got)
		}
		mark("asr", 60*time.Second) // found missing again: the time starts over
		time.Sleep(60*time.Second - 1)
		check("just before the renewed one ends", map[string]bool{"asr": true})
		time.Sleep(time.Nanosecond)
		check("at last", map[string]bool{})
	})
}

// TestMarksSurviveAChangeOfTheDeclaration checks that marks do not depend on the declaration.
func TestMarksSurviveAChangeOfTheDeclaration(t *testing.T) {
	t.Parallel()
	f := agedFleet()
	now := declared("a")
	f.Update(status(now))
	f.Mark(store.Mark{Node: "a", Service: "asr", Epoch: 1, For: time.Minute})
	f.Update(status(successor(now, speaks("en", "zh"), health(core.HealthDegraded))))
	if diff := cmp.Diff(map[string]bool{"asr": true}, marked(f, "a", "asr")); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
}

// offers makes a node declare versions of a service, each with its status.
func offers(id string, versions map[string]core.ServiceStatus) func(*core.Node) {
	return func(n *core.Node) {
		n.Services = nil
		for version, status := range versions {
			n.Services = append(n.Services, core.Service{ID: id, Version: version, Type: "asr", Status: status})
		}
		n.Normalise()
	}
}

// usable lists the versions of a service that are ready and not marked.
func usable(f *Fleet, id core.NodeID, service string) []string {
	n := f.Node(id)
	found := []string{}
	for _, s := range n.Declared().Services {
		if s.ID == service && s.Status == core.ServiceReady && !n.Marked(&s, f.Now()) {
			found = append(found, s.Version)
		}
	}
	if n.Usable(service, f.Now()) != (len(found) > 0) || (n.Unready(false, f.Now()) == core.ReasonNone) != (len(found) > 0) {
		return []string{"Usable and Unready do not agree"}
	}
	return found
}

// markNow marks a service of a node as the view has it.
func markNow(f *Fleet, id core.NodeID, service, version string) store.Mark {
	n := f.Node(id).Declared()
	m := store.Mark{Node: id, Service: service, Version: version, Epoch: n.Epoch, NodeVersion: n.Version, For: time.Minute}
	f.Mark(m)
	return m
}

var bothReady = offers("asr", map[string]core.ServiceStatus{"1": core.ServiceReady, "2": core.ServiceReady})

func TestMarkOfAVersionMarksOnlyThatVersion(t *testing.T) {
	t.Parallel()
	f := agedFleet()
	f.Update(status(declared("a", bothReady)))
	markNow(f, "a", "asr", "1")
	if diff := cmp.Diff([]string{"2"}, usable(f, "a", "asr")); diff != "" {
		t.Errorf("usable (-want +got):\n%s", diff)
	}
	markNow(f, "a", "asr", "")
	if diff := cmp.Diff([]string{}, usable(f, "a", "asr")); diff != "" {
		t.Errorf("usable after a mark of all versions (-want +got):\n%s", diff)
	}
}

// TestMarkEndsWhenTheServiceBecomesReady checks which reports of a node end a mark: one by which the status becomes ready, or a
// registration; not one that repeats what was declared, and not one about another service.
func TestMarkEndsWhenTheServiceBecomesReady(t *testing.T) {
	t.Parallel()
	f := agedFleet()
	now := declared("a", bothReady)
	f.Update(status(now))
	declare := func(name string, want []string, changes ...func(*core.Node)) {
		t.Helper()
		now = successor(now, changes...)
		f.Update(status(now))
		if diff := cmp.Diff(want, usable(f, "a", "asr")); diff != "" {
			t.Errorf("%s: usable (-want +got):\n%s", name, diff)
		}
	}
	markNow(f, "a", "asr", "")
	declare("the same services in a heartbeat that changes another field", []string{}, bothReady, slots(9))
	declare("one version fails", []string{}, offers("asr", map[string]core.ServiceStatus{"1": core.ServiceError, "2": core.ServiceReady}))
	declare("it becomes ready", []string{"1"}, bothReady)
	declare("another field changes", []string{"1"}, slots(8))
	markNow(f, "a", "asr", "1")
	declare("it was marked again", []string{}, slots(7))
	now = nextEpoch(now)
	f.Update(status(now))
	if diff := cmp.Diff([]string{"1", "2"}, usable(f, "a", "asr")); diff != "" {
		t.Errorf("after a registration (-want +got):\n%s", diff)
	}
	if f.Node("a").Summary()&summaryMarked != 0 {
		t.Error("a node without marks is still looked at more closely")
	}
}

// TestMarksDoNotDependOnTheirOrder: marks come from reports and from the stream of changes, declarations too, in any order.
func TestMarksDoNotDependOnTheirOrder(t *testing.T) {
	t.Parallel()
	broken := offers("asr", map[string]core.ServiceStatus{"1": core.ServiceError})
	ready := offers("asr", map[string]core.ServiceStatus{"1": core.ServiceReady})
	first := declared("a", ready)
	failed := successor(first, broken)
	repaired := successor(failed, ready)
	again := nextEpoch(repaired)
	mark := func(n *core.Node) store.Mark {
		return store.Mark{Node: "a", Service: "asr", Epoch: n.Epoch, NodeVersion: n.Version, For: time.Minute}
	}
	for _, c := range []struct {
		name  string
		nodes []*core.Node
		marks []store.Mark
		want  []string
	}{
		{"a mark of before it was repaired comes late", []*core.Node{repaired}, []store.Mark{mark(first)}, []string{"1"}},
		{"it comes after a mark of later", []*core.Node{repaired}, []store.Mark{mark(repaired), mark(first)}, []string{}},
		{"a mark of the epoch before comes late", []*core.Node{repaired, again}, []store.Mark{mark(repaired)}, []string{"1"}},
		{"it comes after a mark of this epoch", []*core.Node{again}, []store.Mark{mark(again), mark(repaired)}, []string{}},
	} {
		f := agedFleet()
		for _, n := range c.nodes {
			f.Update(status(n))
		}
		for _, m := range c.marks {
			f.Mark(m)
		}
		if diff := cmp.Diff(c.want, usable(f, "a", "asr")); diff != "" {
			t.Errorf("%s: usable (-want +got):\n%s", c.name, diff)
		}
	}
	// A mark of an epoch of which this instance has not learned yet is kept until it does.
	f := agedFleet()
	f.Update(status(repaired))
	f.Mark(mark(again))
	if diff := cmp.Diff([]string{"1"}, usable(f, "a", "asr")); diff != "" {
		t.Errorf("in the epoch before (-want +got):\n%s", diff)
	}
	f.Update(status(again))
	if diff := cmp.Diff([]string{}, usable(f, "a", "asr")); diff != "" {
		t.Errorf("in its epoch (-want +got):\n%s", diff)
	}
}

func TestMarksOfANodeAreLimited(t *testing.T) {
	t.Parallel()
	f := agedFleet()
	f.Update(status(declared("a")))
	for i := range store.MaxMarks + 100 {
		f.Mark(store.Mark{Node: "a", Service: fmt.Sprint("s-", i), Epoch: 1, NodeVersion: 1, For: time.Minute})
	}
	if got := len(*f.Node("a").marks.Load()); got != store.MaxMarks {
		t.Errorf("%d marks are kept, want %d", got, store.MaxMarks)
	}
}

func TestRemainingTimeOfMarks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := agedFleet()
		f.Update(status(declared("a", bothReady)))
		markNow(f, "a", "asr", "1")
		time.Sleep(10 * time.Second)
		markNow(f, "a", "unknown", "3")
		markNow(f, "a", "asr", "9")
		n := f.Node("a")
		for version, want := range map[string]time.Duration{"1": 50 * time.Second, "2": 0} {
			if got := n.MarkedFor(&core.Service{ID: "asr", Version: version}, f.Now()); got != want {
				t.Errorf("version %s is marked for %v, want %v", version, got, want)
			}
		}
		want := []ServiceMark{{Service: "asr", Version: "9", For: time.Minute}, {Service: "unknown", Version: "3", For: time.Minute}}
		if diff := cmp.Diff(want, n.UndeclaredMarks(f.Now())); diff != "" {
			t.Errorf("marks on undeclared services (-want +got):\n%s", diff)
		}
		time.Sleep(time.Minute)
		if marks := n.UndeclaredMarks(f.Now()); marks != nil {
			t.Errorf("marks after their time: %v", marks)
		}
	})
}

// TestMarksInForce checks the list of the marks of a node: those of declared services that have not become ready since, and all others.
func TestMarksInForce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := agedFleet()
		f.Update(status(declared("a", func(n *core.Node) {
			n.Version = 7
			n.Services = []core.Service{
				{ID: "asr", Version: "1", Status: core.ServiceReady}, {ID: "nmt", Version: "2", Status: core.ServiceReady, ReadySince: 6}, {ID: "tts", Version: "3", Status: core.ServiceReady},
			}
		})))
		mark := func(service, version string, reason core.UnavailableReason, d time.Duration) {
			f.Mark(store.Mark{Node: "a", Service: service, Version: version, Epoch: 1, NodeVersion: 5, For: d, Reason: reason})
		}
		if got := f.Node("a").Marks(f.Now()); got != nil {
			t.Errorf("marks at first: %v", got)
		}
		mark("tts", "3", core.UnavailableInstalling, time.Minute)
		mark("asr", "", core.UnavailableRuntimeError, time.Minute)
		mark("asr", "", "", time.Minute) // read again: the store does not know the reason
		mark("nmt", "2", core.UnavailableOther, time.Minute)
		mark("vad", "1", core.UnavailableNotInstalled, 2*time.Minute)
		mark("tts", "1", core.UnavailableOther, time.Second)
		want := []ServiceMark{
			{Service: "asr", For: time.Minute, Reason: core.UnavailableRuntimeError}, {Service: "tts", Version: "1", For: time.Second, Reason: core.UnavailableOther},
			{Service: "tts", Version: "3", For: time.Minute, Reason: core.UnavailableInstalling},
			{Service: "vad", Version: "1", For: 2 * time.Minute, Reason: core.UnavailableNotInstalled},
		}
		if diff := cmp.Diff(want, f.Node("a").Marks(f.Now())); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		time.Sleep(time.Minute)
		want = want[3:]
		want[0].For = time.Minute
		if diff := cmp.Diff(want, f.Node("a").Marks(f.Now())); diff != "" {
			t.Errorf("after a minute (-want +got)\n%s", diff)
		}
	})
}
