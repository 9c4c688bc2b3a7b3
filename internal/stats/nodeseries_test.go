package stats

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// seriesNode is a status of a node with four slots.
func seriesNode(id core.NodeID, change ...func(*core.Node)) store.NodeStatus {
	n := &core.Node{ID: id, Epoch: 1, Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 4, Callback: "http://127.0.0.1:1/", Tenant: "acme"}}
	for _, fn := range change {
		fn(n)
	}
	return store.NodeStatus{Node: n}
}

// at is a time in the steps of the series.
func at(step int64) time.Time {
	return time.UnixMilli(1_700_000_000_000 + step*SeriesStep.Milliseconds())
}

// describePoints describes points as "step state used/slots done+failed mean".
func describePoints(points []wire.NodePoint) []string {
	list := []string{}
	for _, p := range points {
		used := "?"
		if p.UsedSlots != nil {
			used = fmt.Sprint(*p.UsedSlots)
		}
		list = append(list, fmt.Sprintf("%d %s %s/%d %d+%d %d", (p.AtMS-at(0).UnixMilli())/SeriesStep.Milliseconds(), p.State, used, p.Slots, p.Done, p.Failed, p.MeanMS))
	}
	return list
}

// wantPoints checks the points of a node after a time.
func wantPoints(t *testing.T, s *NodeSeries, id core.NodeID, from time.Time, want ...string) {
	t.Helper()
	_, points, _ := s.Points(id, from)
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, describePoints(points)); diff != "" {
		t.Errorf("points of %s (-want +got):\n%s", id, diff)
	}
}

func TestNodePoints(t *testing.T) {
	t.Parallel()
	f := fleet.New(time.Hour)
	f.Update(seriesNode("n1"))
	f.Update(seriesNode("n2", func(n *core.Node) { n.Drained, n.Tenant = true, "" }))
	s := NewNodeSeries(f)
	f.Observe(f.Node("n1"), 3, 4, f.Now())
	s.add("n1", true, 1210*time.Millisecond)
	s.add("n1", true, 1230*time.Millisecond)
	s.add("n1", false, 0)
	s.sample(at(0))
	s.add("n2", false, 0)
	s.sample(at(1))
	s.sample(at(4)) // two were missed
	wantPoints(t, s, "n1", time.Time{}, "0 ready 3/4 2+1 1220", "1 ready 3/4 0+0 0", "4 ready 3/4 0+0 0")
	wantPoints(t, s, "n2", time.Time{}, "0 draining 0/4 0+0 0", "1 draining 0/4 0+1 0", "4 draining 0/4 0+0 0")
	wantPoints(t, s, "n1", at(1), "4 ready 3/4 0+0 0")
	if tenant, _, known := s.Points("n1", time.Time{}); tenant != "acme" || !known {
		t.Errorf("the tenant is %q, known %v", tenant, known)
	}
	if _, points, known := s.Points("n3", time.Time{}); known || len(points) > 0 {
		t.Errorf("an unknown node has the points %v", points)
	}
}

// TestNodePointsOfAnHour checks that the oldest points are dropped, also of a node that is gone, which is forgotten after an hour.
func TestNodePointsOfAnHour(t *testing.T) {
	t.Parallel()
	f := fleet.New(time.Hour)
	f.Update(seriesNode("n1"))
	f.Update(seriesNode("gone"))
	s := NewNodeSeries(f)
	count := func(id core.NodeID) int {
		_, points, _ := s.Points(id, time.Time{})
		return len(points)
	}
	for step := range seriesPoints + 10 {
		if step == 10 {
			f.Remove("gone")
		}
		s.sample(at(step))
	}
	if n := count("n1"); n != int(seriesPoints) {
		t.Errorf("%d points, want %d", n, seriesPoints)
	}
	if n := count("gone"); n != 0 {
		t.Errorf("%d points of a node that is gone for an hour, want none", n)
	}
	_, points, _ := s.Points("n1", time.Time{})
	if first := points[0].AtMS; first != at(10).UnixMilli() {
		t.Errorf("the first point is at %d, want %d", first, at(10).UnixMilli())
	}
	s.sample(at(3 * seriesPoints)) // the machine slept
	if n := count("n1"); n != 1 {
		t.Errorf("%d points after a sleep, want 1", n)
	}
}

// TestNodePointsWhenTheClockJumps checks both directions, and a small step back.
func TestNodePointsWhenTheClockJumps(t *testing.T) {
	t.Parallel()
	f := fleet.New(time.Hour)
	f.Update(seriesNode("n1"))
	s := NewNodeSeries(f)
	s.sample(at(5))
	s.add("n1", true, time.Second)
	s.sample(at(5))
	s.sample(at(4))
	wantPoints(t, s, "n1", time.Time{}, "5 ready 0/4 0+0 0")
	s.sample(at(6)) // what was counted meanwhile is not lost
	wantPoints(t, s, "n1", time.Time{}, "5 ready 0/4 0+0 0", "6 ready 0/4 1+0 1000")
	s.sample(at(-100)) // set back: the points would be of the future
	wantPoints(t, s, "n1", time.Time{}, "-100 ready 0/4 0+0 0")
	s.sample(at(100)) // set ahead, within the hour: there is a gap
	wantPoints(t, s, "n1", time.Time{}, "-100 ready 0/4 0+0 0", "100 ready 0/4 0+0 0")
}

// TestPackedPoints checks that values beyond their bits do not change others.
func TestPackedPoints(t *testing.T) {
	t.Parallel()
	const huge = 1 << 30
	for state := stateReady; state <= stateOffline; state++ {
		v := packPoint(state, huge, huge, nodeCounts{done: huge, failed: huge, took: math.MaxInt64}).view(1)
		want := wire.NodePoint{AtMS: 5000, State: stateNames[state], Slots: 4095, Done: 4095, Failed: 255}
		used := 4094
		want.UsedSlots = &used
		want.MeanMS = (time.Duration(math.MaxInt64) / huge).Truncate(meanUnit).Milliseconds()
		if diff := cmp.Diff(want, v); diff != "" {
			t.Errorf("point (-want +got):\n%s", diff)
		}
	}
	if v := packPoint(stateReady, 1, 1, nodeCounts{done: 1, took: 24 * time.Hour}).view(1); v.MeanMS != 655_350 {
		t.Errorf("a mean of a day is %d ms, want the largest", v.MeanMS)
	}
	if v := packPoint(stateOffline, -1, -1, nodeCounts{}).view(1); v.Slots != 0 || v.UsedSlots != nil {
		t.Errorf("%+v, want no slots and unknown used ones", v)
	}
}

// TestSeriesAreBounded checks that nodes beyond the maximum are counted, and prints what the series of all others take.
func TestSeriesAreBounded(t *testing.T) { //nolint:paralleltest // it measures the heap of the process
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	f := fleet.New(time.Hour)
	for i := range maxSeriesNodes + 7 {
		f.Update(seriesNode(core.NodeID(fmt.Sprint("n", i))))
	}
	before := heap()
	s := NewNodeSeries(f)
	began := time.Now()
	s.sample(at(0))
	took := time.Since(began)
	size := heap() - before
	if s.Missing() != 7 {
		t.Errorf("%d nodes are missing, want 7", s.Missing())
	}
	for i := range 2 * maxSeriesNodes {
		s.add(core.NodeID(fmt.Sprint("forged", i)), true, 0)
	}
	if len(s.pending) > maxSeriesNodes {
		t.Errorf("%d nodes have counts", len(s.pending))
	}
	t.Logf("the series of %d nodes take %.1f MiB, %d bytes each; their first points took %s", maxSeriesNodes, float64(size)/(1<<20), size/maxSeriesNodes, took)
	if limit := uint64(maxSeriesNodes * (unsafe.Sizeof(nodePoints{}) + 1024)); size > limit {
		t.Errorf("they take %d bytes, want at most %d", size, limit)
	}
	runtime.KeepAlive(s)
}

// TestRunSamplesAtMultiples checks when points are made.
func TestRunSamplesAtMultiples(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleet.New(time.Hour)
		f.Update(seriesNode("n1"))
		s := NewNodeSeries(f)
		go s.Run(t.Context())
		time.Sleep(17 * time.Second)
		synctest.Wait()
		_, points, _ := s.Points("n1", time.Time{})
		if len(points) != 3 {
			t.Fatalf("%d points after 17 s, want 3", len(points))
		}
		for _, p := range points {
			if p.AtMS%SeriesStep.Milliseconds() != 0 {
				t.Errorf("a point is at %d", p.AtMS)
			}
		}
	})
}

// BenchmarkSample measures the pass over all nodes that is made every 5 s.
func BenchmarkSample(b *testing.B) {
	f := fleet.New(time.Hour)
	for i := range maxSeriesNodes {
		f.Update(seriesNode(core.NodeID(fmt.Sprint("n", i))))
	}
	s, step := NewNodeSeries(f), int64(0)
	b.ReportAllocs()
	for b.Loop() {
		step++
		s.sample(at(step))
	}
}
