package pools_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/pools"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

// ledger answers that each node has one job, after a time.
type ledger struct {
	takes  time.Duration
	fails  error
	probes int
}

func (l *ledger) Probe(_ context.Context, nodes []core.NodeID, into []store.Occupancy) error {
	l.probes++
	time.Sleep(l.takes)
	for i := range nodes {
		into[i] = store.Occupancy{Max: 4, Running: 1}
	}
	return l.fails
}

// newReader makes a reader of an instance with a division.
func newReader(t testing.TB, division *core.Pools, l pools.Ledger) (*pools.Reader, *pools.Follower) {
	t.Helper()
	f := fleet.New(time.Minute)
	follower := pools.New(pools.Options{Store: memstore.New(timing), Fleet: f, Log: slog.New(slog.DiscardHandler)})
	if err := follower.Start(t.Context(), division); err != nil {
		t.Fatal(err)
	}
	policy := pick.Policy{SampleK: 20, ScanMax: 512, StaleAfter: time.Minute, CPUMax: 1, GPUMax: 1, MemoryMax: 1}
	return pools.NewReader(follower, pick.New(f, policy, nil), l), follower
}

// declared is the status of a node with services, which are of the types of their names.
func declared(id core.NodeID, services ...string) store.NodeStatus {
	n := &core.Node{ID: id, Epoch: 1, Revision: 1, Version: 1, Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 4, Callback: "http://" + string(id)}}
	n.Capability = core.Capability{Semantic: core.NewLangSet("de", "en"), AnyPair: true}
	for _, s := range services {
		n.Services = append(n.Services, core.Service{ID: s, Type: s, Status: core.ServiceReady})
	}
	return store.NodeStatus{Node: n, Load: core.UnknownLoad, Occupancy: store.Occupancy{Max: 4}}
}

// silentFor makes a status that of a node which is registered and silent.
func silentFor(s store.NodeStatus) store.NodeStatus {
	s.Age = time.Hour
	return s
}

func drained(s store.NodeStatus) store.NodeStatus {
	s.Node.Drained = true
	return s
}

func pinnedTo(pool core.PoolID, s store.NodeStatus) store.NodeStatus {
	s.Node.Pool = pool
	return s
}

// TestOverviewCounts: nodes count by what they are, silent ones only as registered, and those without a pool with the reason.
func TestOverviewCounts(t *testing.T) {
	t.Parallel()
	r, follower := newReader(t, file("asr", "tts"), &ledger{})
	stopped := declared("a-4", "asr")
	stopped.Node.Services[0].Status = core.ServiceError
	for _, s := range []store.NodeStatus{
		declared("a-1", "asr"), declared("a-2", "asr"), drained(declared("a-3", "asr")), stopped, silentFor(declared("a-5", "asr")),
		declared("t-1", "tts"), declared("n-1", "nmt"), silentFor(declared("n-2")), pinnedTo("gone", declared("n-3", "asr")), pinnedTo("tts", declared("n-4", "asr")),
	} {
		follower.Fleet.Update(s)
	}
	o, err := r.Overview(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []pools.Count{
		{
			ID: "asr", Total: 5, Online: 4, Ready: 2, Slots: 8, Used: 2, ASR: pools.StageCount{Installed: 4, Ready: 3}, NMT: pools.StageCount{Installed: 4, Ready: 4},
			Examples: []pools.Example{{Node: "a-1"}, {Node: "a-2"}, {"a-3", core.ReasonDrained}, {"a-4", core.ReasonASRNotReady}, {"a-5", core.ReasonStale}},
		},
		{
			ID: "tts", Total: 1, Online: 1, Ready: 1, Slots: 4, Used: 1, ASR: pools.StageCount{Installed: 1, Ready: 1}, NMT: pools.StageCount{Installed: 1, Ready: 1},
			TTS: pools.StageCount{Installed: 1, Ready: 1}, Examples: []pools.Example{{Node: "t-1"}},
		},
	}
	if diff := cmp.Diff(want, o.Pools); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if o.Generation != 1 || o.Outside.Total != 4 || o.Outside.Online != 3 || o.Outside.Ready != 3 {
		t.Errorf("generation %d; %d, %d, %d nodes without a pool", o.Generation, o.Outside.Total, o.Outside.Online, o.Outside.Ready)
	}
	outside := []pools.Outsider{
		{Node: "n-1", Online: true, Assignment: core.Assignment{Missing: "asr", Closest: "asr"}},
		{Node: "n-3", Online: true, Pinned: true, Assignment: core.Assignment{Closest: "gone"}},
		{Node: "n-4", Online: true, Pinned: true, Assignment: core.Assignment{Missing: "tts", Closest: "tts"}},
		{Node: "n-2", Assignment: core.Assignment{Missing: "asr", Closest: "asr"}},
	}
	if diff := cmp.Diff(outside, o.Outsiders); diff != "" {
		t.Errorf("without a pool (-want +got)\n%s", diff)
	}
	follower.Publish(t.Context(), file("nmt")) // silent nodes change their pools, too
	if o, err = r.Overview(t.Context()); err != nil || len(o.Pools) != 1 || o.Pools[0].Total != 1 || o.Outside.Total != 9 {
		t.Errorf("after a change: %+v, %d nodes without a pool, %v", o.Pools, o.Outside.Total, err)
	}
}

// TestExamplesAreChosen: at most five nodes are listed, the first by their ids, of both kinds if there are both.
func TestExamplesAreChosen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ready, drained int
		want           string
	}{
		{9, 0, "[r0 r1 r2 r3 r4]"}, {9, 9, "[r0 r1 r2 d0 d1]"}, {0, 9, "[d0 d1 d2 d3 d4]"}, {1, 9, "[r0 d0 d1 d2 d3]"}, {9, 1, "[r0 r1 r2 r3 d0]"}, {0, 0, "[]"},
	} {
		r, follower := newReader(t, file("x"), &ledger{})
		for i := range c.ready {
			follower.Fleet.Update(declared(core.NodeID(fmt.Sprint("r", c.ready-1-i)), "x"))
		}
		for i := range c.drained {
			follower.Fleet.Update(drained(declared(core.NodeID(fmt.Sprint("d", i)), "x")))
		}
		o, err := r.Overview(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ids := []core.NodeID{}
		for _, x := range o.Pools[0].Examples {
			ids = append(ids, x.Node)
		}
		if fmt.Sprint(ids) != c.want {
			t.Errorf("of %d ready and %d drained nodes: %v, want %s", c.ready, c.drained, ids, c.want)
		}
	}
}

// TestExpensiveCountsAreReused: a count that takes long is used again for a while, unless other pools are in force; a cheap one is not.
func TestExpensiveCountsAreReused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{takes: 200 * time.Millisecond}
		r, follower := newReader(t, file("x"), l)
		ask := func(wantProbes int) {
			t.Helper()
			if _, err := r.Overview(t.Context()); err != nil || l.probes != wantProbes {
				t.Errorf("counted %d times, want %d: %v", l.probes, wantProbes, err)
			}
		}
		ask(1)
		time.Sleep(1900 * time.Millisecond)
		ask(1)
		time.Sleep(200 * time.Millisecond)
		ask(2)
		follower.Publish(t.Context(), file("y"))
		ask(3)
		time.Sleep(3 * time.Second)
		l.takes = time.Millisecond
		ask(4)
		ask(5)
	})
}

// TestOverviewWithoutPools is empty and asks nothing of the ledger, and a ledger that fails is an error.
func TestOverviewWithoutPools(t *testing.T) {
	t.Parallel()
	l := &ledger{fails: errAway}
	r, follower := newReader(t, file(), l)
	follower.Fleet.Update(declared("n"))
	if o, err := r.Overview(t.Context()); err != nil || len(o.Pools) > 0 || o.Outside.Total > 0 || l.probes > 0 {
		t.Errorf("%+v, %v, %d probes", o, err, l.probes)
	}
	r, _ = newReader(t, file("x"), l)
	if _, err := r.Overview(t.Context()); !errors.Is(err, errAway) {
		t.Errorf("%v, want the error of the ledger", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.fails = nil
	for range 100 { // one of the two ways is taken at random
		if _, err := r.Overview(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want that the caller has gone", err)
		}
	}
}

// BenchmarkOverview counts 100,000 nodes in 50 pools.
func BenchmarkOverview(b *testing.B) {
	division := file()
	for i := range 50 {
		division.Defined = append(division.Defined, core.PoolDefinition{ID: core.PoolID(fmt.Sprint("p", i)), RequiredServices: []string{fmt.Sprint("s", i)}})
	}
	r, follower := newReader(b, division, &ledger{})
	for i := range 100_000 {
		follower.Fleet.Update(declared(core.NodeID(fmt.Sprintf("n%06d", i)), "asr", "nmt", fmt.Sprint("s", i%50)))
	}
	for b.Loop() {
		if _, err := r.CountAgain(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
