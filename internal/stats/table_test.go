package stats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

const presence = 15 * time.Second

// node builds the status of a node: ready, four slots, English and German.
func node(id core.NodeID, changes ...func(*store.NodeStatus)) store.NodeStatus {
	s := store.NodeStatus{Load: core.UnknownLoad, Node: &core.Node{
		ID: id, Epoch: 1, Revision: 1, Version: 1, Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 4, Owner: "i-1",
			Capability: core.Capability{Semantic: core.NewLangSet("de", "en"), AnyPair: true}},
	}}
	for _, change := range changes {
		change(&s)
	}
	s.Max, s.Withheld = s.Node.MaxJobs, s.Node.MaxJobs-s.Node.Slots()
	return s
}

// declares changes the declaration.
func declares(change func(*core.Node)) func(*store.NodeStatus) {
	return func(s *store.NodeStatus) { change(s.Node) }
}

// newTable makes a table of nodes.
func newTable(statuses ...store.NodeStatus) (*NodeTable, *fleet.Fleet) {
	f := fleet.New(presence)
	for _, s := range statuses {
		f.Update(s)
	}
	return NewNodeTable(f, nil, presence), f
}

// read returns the answer to a query.
func read(t *testing.T, table *NodeTable, q NodeQuery) *wire.NodeTable {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	out, err := table.Read(t.Context(), &q)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ids returns the names of the rows.
func ids(out *wire.NodeTable) string {
	var list []string
	for i := range out.Rows {
		list = append(list, out.Rows[i].NodeID)
	}
	return strings.Join(list, " ")
}

// testNodes are nodes that differ in everything that can be filtered and sorted.
func testNodes() []store.NodeStatus {
	return []store.NodeStatus{
		node("gpu-b", declares(func(n *core.Node) { n.Region, n.Zone, n.Tenant = "eu", "z1", "acme" }), func(s *store.NodeStatus) {
			s.Running, s.Load = 3, core.Load{CPU: 0.1, GPU: 0.4, Memory: -1}
		}),
		node("gpu-a", declares(func(n *core.Node) {
			n.Drained = true
			n.TTS, n.Services = core.NewLangSet("fr"), []core.Service{{ID: "asr", Version: "2.1", Status: core.ServiceReady}, {ID: "nmt", Version: "1", Status: core.ServiceStopped}}
		})),
		node("GPU-C", declares(func(n *core.Node) {
			n.MaxJobs, n.Admission = 8, core.Admission{Limited: true, Reason: core.AdmissionFailing, Times: 1}
		}), func(s *store.NodeStatus) { s.Load = core.Load{CPU: 0.9, GPU: -1, Memory: 0.2} }),
		node("cpu-d", declares(func(n *core.Node) { n.Disconnected, n.Region = true, "eu" })),
		node("cpu-e", declares(func(n *core.Node) {
			n.Health = core.HealthDegraded
			n.Capability = core.Capability{Semantic: core.NewLangSet("zh"), Pairs: []core.Direction{{Src: "zh", Tgt: "ja"}}}
		})),
		node("cpu-f", declares(func(n *core.Node) { n.Region = "eu" }), func(s *store.NodeStatus) { s.Age = time.Minute }),
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	table, _ := newTable(testNodes()...)
	acme := core.TenantID("acme")
	for name, tc := range map[string]struct {
		query NodeQuery
		want  string
		total int
	}{
		"all":               {NodeQuery{}, "GPU-C cpu-d cpu-e cpu-f gpu-a gpu-b", 6},
		"search":            {NodeQuery{Search: "Gpu"}, "GPU-C gpu-a gpu-b", 6},
		"search in the end": {NodeQuery{Search: "-d"}, "cpu-d", 6},
		"ready":             {NodeQuery{State: "ready"}, "gpu-b", 6},
		"ejected":           {NodeQuery{State: "ejected"}, "GPU-C", 6},
		"draining":          {NodeQuery{State: "draining"}, "gpu-a", 6},
		"disconnected":      {NodeQuery{State: "disconnected"}, "cpu-d", 6},
		"degraded":          {NodeQuery{State: "degraded"}, "cpu-e", 6},
		"offline":           {NodeQuery{State: "offline"}, "cpu-f", 6},
		"speech":            {NodeQuery{Lang: "fr"}, "gpu-a", 6},
		"translation":       {NodeQuery{Lang: "ja"}, "cpu-e", 6},
		"direction":         {NodeQuery{Serves: &core.Direction{Src: "zh", Tgt: "ja"}}, "cpu-e", 6},
		"wider language":    {NodeQuery{Serves: &core.Direction{Src: "de-AT", Tgt: "en"}, Search: "gpu"}, "GPU-C gpu-a gpu-b", 6},
		"other way round":   {NodeQuery{Serves: &core.Direction{Src: "ja", Tgt: "zh"}}, "", 6},
		"region":            {NodeQuery{Region: "eu"}, "cpu-d cpu-f gpu-b", 6},
		"region and state":  {NodeQuery{Region: "eu", State: "ready"}, "gpu-b", 6},
		"tenant":            {NodeQuery{Tenant: "acme"}, "gpu-b", 6},
		"visible":           {NodeQuery{Visible: &acme}, "gpu-b", 1},
		"service":           {NodeQuery{Service: "nmt"}, "gpu-a", 6},
		"version":           {NodeQuery{Service: "asr@2.1"}, "gpu-a", 6},
		"other version":     {NodeQuery{Service: "asr@3"}, "", 6},
		"pool":              {NodeQuery{Pool: "p1"}, "", 6},
		"by state":          {NodeQuery{Sort: ByState}, "gpu-b cpu-e gpu-a GPU-C cpu-d cpu-f", 6},
		"by state, down":    {NodeQuery{Sort: ByState, Descending: true}, "cpu-f cpu-d GPU-C gpu-a cpu-e gpu-b", 6},
		"by use, down":      {NodeQuery{Sort: ByUsed, Descending: true}, "gpu-b GPU-C cpu-d cpu-e cpu-f gpu-a", 6},
		"by slots":          {NodeQuery{Sort: BySlots}, "GPU-C cpu-d cpu-e cpu-f gpu-a gpu-b", 6},
		"by load, down":     {NodeQuery{Sort: ByLoad, Descending: true}, "GPU-C gpu-b cpu-d cpu-e cpu-f gpu-a", 6},
		"by heartbeat":      {NodeQuery{Sort: ByHeartbeat, Limit: 1}, "cpu-f", 6},
		"by name, down":     {NodeQuery{Descending: true}, "gpu-b gpu-a cpu-f cpu-e cpu-d GPU-C", 6},
		"second page":       {NodeQuery{Offset: 2, Limit: 2}, "cpu-e cpu-f", 6},
		"beyond the end":    {NodeQuery{Offset: 9}, "", 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := read(t, table, tc.query)
			if got := ids(out); got != tc.want || out.Total != tc.total || out.Offset != tc.query.Offset {
				t.Errorf("got %q of %d from %d, want %q of %d from %d", got, out.Total, out.Offset, tc.want, tc.total, tc.query.Offset)
			}
		})
	}
}

func TestStatesCountWhatMatchesTheOtherFilters(t *testing.T) {
	t.Parallel()
	table, _ := newTable(testNodes()...)
	offline := read(t, table, NodeQuery{State: "offline", Limit: 1}).Rows[0]
	if ago := time.Since(time.UnixMilli(offline.LastHeartbeatMS)); ago < time.Minute-time.Second || ago > 2*time.Minute {
		t.Errorf("a node that is offline was last seen %s ago", ago)
	}
	out := read(t, table, NodeQuery{Region: "eu", State: "ready", Limit: 1})
	if diff := cmp.Diff(map[string]int{"ready": 1, "disconnected": 1, "offline": 1}, out.States); diff != "" || out.Matches != 1 {
		t.Errorf("%d matches, want 1; states (-want +got):\n%s", out.Matches, diff)
	}
}

func TestRow(t *testing.T) {
	t.Parallel()
	f := fleet.New(presence)
	many := node("n1", declares(func(n *core.Node) {
		n.Region, n.Zone, n.Tenant = "eu", "z1", "acme"
		n.Semantic = core.NewLangSet("de", "en", "fr", "it", "es", "pt", "zh", "ja", "ko", "nl")
		n.Services = []core.Service{{ID: "asr"}, {ID: "nmt"}}
	}), func(s *store.NodeStatus) {
		s.Running, s.Reserved, s.Load = 1, 1, core.Load{CPU: 0.25, GPU: 0.5, Memory: 0.125}
	})
	f.Update(many)
	table := NewNodeTable(f, NewNodeSeries(f), presence)
	out := read(t, table, NodeQuery{})
	got := out.Rows[0]
	if seen := time.UnixMilli(got.LastHeartbeatMS); time.Since(seen) > time.Minute || seen.After(time.Now()) {
		t.Errorf("last seen at %v", seen)
	}
	load := 0.5
	want := wire.NodeRow{
		NodeID: "n1", State: "ready", Slots: 4, Used: 2, Region: "eu", Zone: "z1", TenantID: "acme", Incarnation: "i-1", Services: 2, Load: &load,
		Langs: []string{"de", "en", "es", "fr", "it", "ja", "ko", "nl"}, MoreLangs: 2, LastHeartbeatMS: got.LastHeartbeatMS,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func TestPoolsFollowTheDivision(t *testing.T) {
	t.Parallel()
	table, f := newTable(node("n1"))
	if got := read(t, table, NodeQuery{}).Rows[0].PoolID; got != "" {
		t.Errorf("pool %q without pools", got)
	}
	f.SetPools(&core.Pools{Buckets: 1})
	table.latest.Store(nil)
	if got := ids(read(t, table, NodeQuery{Pool: "bucket-0"})); got != "n1" {
		t.Errorf("pool bucket-0 has %q, want n1", got)
	}
	f.SetPools(nil)
	table.latest.Store(nil)
	if got := ids(read(t, table, NodeQuery{Pool: "bucket-0"})); got != "" {
		t.Errorf("pool bucket-0 has %q after it was removed", got)
	}
}

// TestOneSnapshotASecond checks that requests within a second share a snapshot, and that a change of a node is shown after it.
func TestOneSnapshotASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table, f := newTable(node("n1"))
		first := read(t, table, NodeQuery{})
		f.Update(node("n2"))
		time.Sleep(maxAge - time.Millisecond)
		if out := read(t, table, NodeQuery{}); out.Total != 1 || out.GeneratedMS != first.GeneratedMS || out.AgeMS != (maxAge-time.Millisecond).Milliseconds() {
			t.Errorf("%d nodes after %d ms, want the first snapshot", out.Total, out.AgeMS)
		}
		time.Sleep(time.Millisecond)
		if out := read(t, table, NodeQuery{}); out.Total != 2 || out.AgeMS != 0 {
			t.Errorf("%d nodes after %d ms, want 2 of a new snapshot", out.Total, out.AgeMS)
		}
	})
}

// TestBuildInProgress checks that a request uses a snapshot that is not much too old while another one is made, and else waits.
func TestBuildInProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTable(node("n1"))
		read(t, table, NodeQuery{})
		table.building <- struct{}{} // as another request does that makes one
		time.Sleep(maxStale - time.Millisecond)
		if out := read(t, table, NodeQuery{}); out.AgeMS != (maxStale - time.Millisecond).Milliseconds() {
			t.Errorf("it is %d ms old", out.AgeMS)
		}
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := table.Read(ctx, &NodeQuery{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want that of the context", err)
		}
		go func() {
			time.Sleep(time.Second)
			<-table.building
		}()
		if out := read(t, table, NodeQuery{}); out.AgeMS != 0 {
			t.Errorf("it is %d ms old, want a new one", out.AgeMS)
		}
	})
}

// TestConcurrentReaders checks readers, with different orders, while nodes change. It is for the race detector.
func TestConcurrentReaders(t *testing.T) {
	t.Parallel()
	table, f := newTable(testNodes()...)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				q := NodeQuery{Sort: SortKey((i + j) % int(sortKeys)), Descending: j%2 == 0, Limit: 10}
				if out, err := table.Read(t.Context(), &q); err != nil || len(out.Rows) < 6 {
					t.Errorf("%v, %v", out, err)
				}
				f.Update(node(core.NodeID(fmt.Sprintf("n-%d-%d", i, j))))
				table.latest.Store(nil)
			}
		})
	}
	wg.Wait()
}

func TestPartial(t *testing.T) {
	t.Parallel()
	table, f := newTable(node("n1"))
	f.SetPartial(true)
	if !read(t, table, NodeQuery{}).Partial {
		t.Error("a partial view is not shown as such")
	}
}

func TestSortNames(t *testing.T) {
	t.Parallel()
	for i, name := range SortNames() {
		if key, ok := ParseSort(name); !ok || key != SortKey(i) {
			t.Errorf("%s is %v, %v", name, key, ok)
		}
	}
	if _, ok := ParseSort("colour"); ok {
		t.Error("rows are not sorted by colour")
	}
}

// TestKinds checks that nodes with equal capabilities share a kind, that others do not, and that a kind without nodes is forgotten.
func TestKinds(t *testing.T) {
	t.Parallel()
	different := []func(*core.Capability){
		func(*core.Capability) {},
		func(c *core.Capability) { c.ASR = core.NewLangSet("de") },
		func(c *core.Capability) { c.TTS = core.NewLangSet("de") },
		func(c *core.Capability) { c.Semantic = core.NewLangSet("de") },
		func(c *core.Capability) { c.AnyPair = false },
		func(c *core.Capability) { c.AnyPair, c.Pairs = false, []core.Direction{{Src: "de", Tgt: "en"}} },
		func(c *core.Capability) { c.Types.NMT = core.No },
		func(c *core.Capability) { c.Types.TTS = core.No },
		func(c *core.Capability) { c.Services = []core.Service{{ID: "asr", Version: "1"}} },
		func(c *core.Capability) { c.Services = []core.Service{{ID: "asr1"}} },
	}
	table, f := newTable()
	for i, change := range different {
		for j := range 3 {
			f.Update(node(core.NodeID(fmt.Sprintf("n-%d-%d", i, j)), declares(func(n *core.Node) { change(&n.Capability) })))
		}
	}
	for range 2 { // the second is made with what is known of the first
		if s := table.build(); s.kinds != len(different) || len(table.kinds.byKey) != len(different) {
			t.Errorf("%d kinds, %d kept; want %d", s.kinds, len(table.kinds.byKey), len(different))
		}
	}
	for j := range 3 {
		f.Remove(core.NodeID(fmt.Sprintf("n-0-%d", j)))
	}
	if s := table.build(); s.kinds != len(different)-1 || len(table.kinds.byKey) != len(different)-1 {
		t.Errorf("%d kinds, %d kept after one is gone; want %d", s.kinds, len(table.kinds.byKey), len(different)-1)
	}
}
