package stats

import (
	"encoding/json"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// totals sums up the counts of points.
func totals(points []wire.ClusterPoint) (done, failed, refused int64) {
	for _, p := range points {
		done, failed, refused = done+p.Done, failed+p.Failed, refused+p.Refused
	}
	return done, failed, refused
}

// TestClusterSeries checks that every instance has the series, with the jobs of all counted once, that they go on after the death of the
// leader, and that an instance that starts later has what was before it.
func TestClusterSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		ids := []core.InstanceID{"i-1", "i-2", "i-3"}
		all, stops := make(map[core.InstanceID]*fakeInstance), make(map[core.InstanceID]func())
		begin := func(id core.InstanceID) *fakeInstance {
			in := newInstance(id, st, ids...)
			in.counter.load = func() Load { return Load{Waiting: 2, Dispatched: telemetry.DispatchBuckets{5: 10}} }
			all[id], stops[id] = in, in.run()
			return in
		}
		for _, id := range ids[:2] {
			in := begin(id)
			in.counter.JobEnded(endJob(enZH, core.StateDone, ""))
			in.counter.JobEnded(endJob(enZH, core.StateFailed, core.ReasonMaxRetry))
			in.counter.RequestRefused(enZH, wire.NoCapableNode, 0)
		}
		time.Sleep(62 * time.Second)
		for _, id := range ids[:2] {
			s := all[id].reader.Series(time.Time{})
			if n := len(s.Points); n < 11 || n > 14 || s.IntervalMS != 5000 {
				t.Fatalf("%s: %d points every %d ms after a minute", id, n, s.IntervalMS)
			}
			if done, failed, refused := totals(s.Points); done != 2 || failed != 2 || refused != 2 {
				t.Errorf("%s: %d done, %d failed, %d refused, want 2 each", id, done, failed, refused)
			}
			last := s.Points[len(s.Points)-1]
			if last.Waiting != 4 || last.Instances != len(ids) || last.SpanMS < 4000 || last.SpanMS > 6000 {
				t.Errorf("%s: the last point is %+v", id, last)
			}
			if after := all[id].reader.Series(time.UnixMilli(last.AtMS - 1)).Points; len(after) != 1 || !cmp.Equal(after[0], last) {
				t.Errorf("%s: after the point before the last there is %v", id, after)
			}
		}

		leader := core.InstanceID(wantAnswer(t, all["i-1"].reader).GeneratedBy)
		st.holdLock(all[leader])
		stops[leader]()
		st.holdLock(nil)
		other := ids[0]
		if leader == other {
			other = ids[1]
		}
		begin("i-3").counter.JobEnded(endJob(enZH, core.StateDone, ""))
		time.Sleep(time.Minute)
		for _, id := range []core.InstanceID{other, "i-3"} {
			points := all[id].reader.Series(time.Time{}).Points
			if n := len(points); n < 21 || n > 26 {
				t.Errorf("%s: %d points after two minutes and a change of the leader", id, n)
			}
			if done, _, _ := totals(points); done != 3 {
				t.Errorf("%s: %d jobs are done, want 3", id, done)
			}
			for i := 1; i < len(points); i++ {
				if points[i].AtMS <= points[i-1].AtMS {
					t.Errorf("%s: the points at %d and %d are not in order", id, points[i-1].AtMS, points[i].AtMS)
				}
			}
			stops[id]()
		}
	})
}

// TestClusterPointsWhenClocksDiffer checks the order of points of leaders whose clocks differ, and of a clock that was set back.
func TestClusterPointsWhenClocksDiffer(t *testing.T) {
	t.Parallel()
	var c clusterPoints
	add := func(ms ...int64) {
		for _, at := range ms {
			c.add(wire.ClusterPoint{AtMS: at})
		}
	}
	want := func(ms ...int64) {
		t.Helper()
		var got []int64
		for _, p := range c.points {
			got = append(got, p.AtMS)
		}
		if diff := cmp.Diff(ms, got); diff != "" {
			t.Errorf("points (-want +got):\n%s", diff)
		}
	}
	const hour = int64(time.Hour / time.Millisecond)
	add(hour, hour+5000, hour+3000, hour+5000, hour+8000) // another leader's clock is 2 s behind
	want(hour, hour+5000, hour+8000)
	add(2*hour + 5000) // an hour after the second
	want(hour+8000, 2*hour+5000)
	add(1000) // set back by two hours
	want(1000)
	add(10 * hour)
	want(10 * hour)
}

// TestStoredPoints checks that the points of the last hour are read, and nothing else, whatever the parts contain.
func TestStoredPoints(t *testing.T) {
	t.Parallel()
	h := newHistory()
	parts := make(map[string][]byte)
	start := time.UnixMilli(1_700_000_000_000)
	for i := range 3 * seriesPoints {
		now := start.Add(time.Duration(i) * SeriesStep)
		h.addPoint(wire.ClusterPoint{AtMS: now.UnixMilli(), Done: 1})
		changed, err := h.parts(now)
		if err != nil {
			t.Fatal(err)
		}
		if i%5 != 0 {
			continue // they could not be stored: those of the next step have them
		}
		maps.Copy(parts, changed)
		h.stored()
	}
	now := start.Add(3 * time.Hour)
	if n := len(decodePoints(parts, now).points); n < int(seriesPoints)-12 || n > int(seriesPoints) {
		t.Errorf("%d points are read, want those of the last 59 to 60 minutes", n)
	}
	decoded := decodeHistory(parts)
	for name := range decoded.buckets {
		if name[0] == seriesPart[0] {
			t.Errorf("the points of %s were taken for counts", name)
		}
	}
	if n := len(decodePoints(parts, now.Add(2*time.Hour)).points); n != 0 {
		t.Errorf("%d points are older than an hour", n)
	}
	for _, body := range []string{"", "null", "[]", `{"points":1}`, `{"index":-5,"points":[{"at_ms":"x"}]}`} {
		if n := len(decodePoints(map[string][]byte{"s1": []byte(body), "m1": parts["m1"]}, now).points); n != 0 {
			t.Errorf("%q has %d points", body, n)
		}
	}
	size := 0
	for name, body := range parts {
		if name[0] == seriesPart[0] {
			size += len(body)
		}
	}
	t.Logf("the points of an hour take %d bytes in the store, in %d parts", size, seriesRing.length)
	if !json.Valid(parts["s1"]) || size > 512<<10 {
		t.Errorf("the points take %d bytes", size)
	}
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		buckets  telemetry.DispatchBuckets
		p50, p95 float64
	}{
		{telemetry.DispatchBuckets{}, 0, 0},
		{telemetry.DispatchBuckets{0: 100}, 0.025, 0.047},              // up to 50 µs
		{telemetry.DispatchBuckets{4: 90, 10: 10}, 0.622, 38.4},        // 400 to 800 µs, 25.6 to 51.2 ms
		{telemetry.DispatchBuckets{19: 1}, 19_660.8, 25_559.04},        // more than 13 s
		{telemetry.DispatchBuckets{3: 1, 4: 1, 5: 1, 6: 1}, 0.8, 2.88}, // the bound between two
	} {
		if p50, p95 := quantileMS(&tc.buckets, 0.5), quantileMS(&tc.buckets, 0.95); p50 != tc.p50 || p95 != tc.p95 {
			t.Errorf("%v: %v and %v, want %v and %v", tc.buckets, p50, p95, tc.p50, tc.p95)
		}
	}
}
