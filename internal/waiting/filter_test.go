package waiting

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

var variedLangs = []core.Lang{"de", "en", "es", "fr", "it", "ja", "pt", "zh"}

// variedSpec makes the requirements of one of 512 classes: 32 directions, each with 16 variants.
func variedSpec(i int) *core.Spec {
	src, tgt := i%8, (i+1+i/8%4)%8
	s := &core.Spec{Direction: core.Direction{Src: variedLangs[src], Tgt: variedLangs[tgt]}}
	switch variant := i / 32; {
	case variant == 15:
	case variant < 4:
		s.Options.Region = fmt.Sprint("region-", variant)
	case variant < 8:
		s.Options.RequiredServices = []string{fmt.Sprint("service-", variant)}
	case variant < 14:
		s.Options.Features = []string{fmt.Sprint("feature-", variant)}
	default:
		s.Options.Strict, s.Options.PreferredNodeID = true, new(string(variedNode(i)))
	}
	return s
}

func variedNode(i int) core.NodeID { return core.NodeID(fmt.Sprintf("n%05d", i)) }

// variedStatus makes a node that serves some of these classes. Of 16 nodes, three get no jobs.
func variedStatus(i int) store.NodeStatus {
	n := &core.Node{
		ID: variedNode(i), Epoch: 1, Revision: 1, Version: 1, Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 4, Callback: "http://n",
			Region: fmt.Sprint("region-", i%4),
			Capability: core.Capability{
				Semantic: core.NewLangSet(variedLangs[i%8], variedLangs[(i+1)%8], variedLangs[(i+3)%8]), AnyPair: true,
				Features: []string{fmt.Sprint("feature-", 8+i%7)},
				Services: []core.Service{{ID: fmt.Sprint("service-", 4+i%5), Status: core.ServiceReady}},
			}},
	}
	s := store.NodeStatus{Node: n, Load: core.UnknownLoad, Occupancy: store.Occupancy{Max: 4}}
	switch i % 16 {
	case 3:
		n.Drained = true
	case 7:
		s.Load.CPU = .99
	case 11:
		n.Callback = ""
	}
	return s
}

// newCrowdedQueue makes a queue with many nodes and open classes.
func newCrowdedQueue(tb testing.TB, st Store, nodes, classes int) *Queue {
	tb.Helper()
	fl := fleet.New(time.Hour)
	for i := range nodes {
		fl.Update(variedStatus(i))
	}
	fl.SetPartial(false)
	policy := pick.Policy{SampleK: 20, ScanMax: 512, StaleAfter: time.Hour, Shuffle: true, CPUMax: .95, GPUMax: .98, MemoryMax: .95}
	m, log := telemetry.New(), slog.New(slog.DiscardHandler)
	q := New(Options{
		Instance: "i", Store: st, Fleet: fl, Picker: pick.New(fl, policy, nil), Metrics: &m.Waiting,
		Errors: telemetry.NewStoreErrors(m, log), Log: log,
	})
	tb.Cleanup(q.Close)
	q.open.opened = func() {} // the keeper does not run
	for i := range classes {
		enqueueVaried(tb, q, i)
	}
	if err := q.open.refresh(tb.Context(), ""); err != nil || q.open.count() != classes {
		tb.Fatal(q.open.count(), err)
	}
	return q
}

// enqueueVaried opens one of the classes.
func enqueueVaried(tb testing.TB, q *Queue, i int) fairqueue.Waiter {
	tb.Helper()
	class, _ := newWaitClass(q.options.Fleet, variedSpec(i), nil)
	clock, err := q.store.Clock(tb.Context(), store.ClockKey{})
	if err != nil {
		tb.Fatal(err)
	}
	now := clock.UnixMilli()
	w := fairqueue.Waiter{ID: fmt.Sprint("w", i), Class: class.id, Instance: "i", Since: now, Deadline: now + time.Hour.Milliseconds()}
	if _, err := q.store.Enqueue(tb.Context(), "",
		fairqueue.EnqueueParams{Waiter: w, Requirements: class.requirements, Weight: 100, Repeat: true}); err != nil {
		tb.Fatal(err)
	}
	return w
}

// checkServable compares which classes nodes can serve with the answers of a filter for each class, and returns how many there are.
func checkServable(t *testing.T, q *Queue) (total int) {
	t.Helper()
	now := q.options.Fleet.Now()
	for n := range q.options.Fleet.All() {
		var got, want []string
		for f := range q.open.filters("").serving(n, now) {
			got = append(got, f.class.id)
		}
		for id, class := range q.open.classes("") {
			f := q.open.filterOf(class)
			f.query.Now = now
			if reason := q.open.picker.Filter(&f.query, n); (reason == core.ReasonNone || reason.Soft()) &&
				(f.node == "" || f.node == n.ID()) {
				want = append(want, id)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("classes that %s can serve (-want +got):\n%s", n.ID(), diff)
		}
		if wants := q.open.filters("").wants(n, now); wants != (len(want) > 0) {
			t.Errorf("%s is wanted: %v, and can serve %d classes", n.ID(), wants, len(want))
		}
		total += len(want)
	}
	return total
}

// TestClassFilters: the filters of all classes together decide as a filter of each class does, also after the fleet was divided otherwise.
func TestClassFilters(t *testing.T) {
	t.Parallel()
	q := newCrowdedQueue(t, memstore.New(store.Timing{Presence: time.Hour}), 160, 512)
	before := checkServable(t, q)
	q.options.Fleet.SetPools((&core.Pools{Defined: []core.PoolDefinition{{ID: "p", RequiredServices: []string{"service-4"}}},
		Strict: true}).Prepared())
	if after := checkServable(t, q); before == 0 || after == 0 || after >= before {
		t.Errorf("%d pairs of nodes and classes, and %d after the fleet was divided; want some, and fewer", before, after)
	}
}

// TestSweepRoundHasAllWantedNodes: a sweep comes to every node for which somebody waits, once.
func TestSweepRoundHasAllWantedNodes(t *testing.T) {
	t.Parallel()
	q := newCrowdedQueue(t, memstore.New(store.Timing{Presence: time.Hour}), 480, 40)
	want := make(map[core.NodeID]int)
	for n := range q.options.Fleet.All() {
		if q.open.filters("").wants(n, q.options.Fleet.Now()) {
			want[n.ID()] = 1
		}
	}
	got := make(map[core.NodeID]int)
	for _, n := range q.keeper.nodesFor(q.open.filters("")) {
		got[n.ID()]++
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 || len(want) == 480 {
		t.Errorf("nodes of a round, of which %d are wanted (-want +got):\n%s", len(want), diff)
	}
}

// TestFiltersAreMadeOnce: as long as the same classes are open, their filters are used again.
func TestFiltersAreMadeOnce(t *testing.T) {
	t.Parallel()
	q := newCrowdedQueue(t, memstore.New(store.Timing{Presence: time.Hour}), 10, 4)
	refreshed := func() *classFilters {
		if err := q.open.refresh(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		return q.open.filters("")
	}
	first := refreshed()
	if refreshed() != first {
		t.Error("the filters were made again although the classes are the same")
	}
	left := enqueueVaried(t, q, 4)
	if got := refreshed(); got == first || len(got.classes) != 5 {
		t.Errorf("filters of %d classes, want 5", len(got.classes))
	}
	if err := q.store.Settle(t.Context(), "", left, fairqueue.Left); err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(slices.Values(refreshed().classes))
	if want := slices.Sorted(maps.Keys(q.open.classes(""))); !slices.Equal(got, want) || len(want) != 4 {
		t.Errorf("filters of %v, want %v", got, want)
	}
}
