package stats

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestClusterLagAndRefusals checks that lags, retries and refusals by code are those of all instances, each in one point only, and that a
// point without results has no lag.
func TestClusterLagAndRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		ids := []core.InstanceID{"i-1", "i-2"}
		var slow atomic.Bool
		var readers []*Reader
		for i, id := range ids {
			in := newInstance(id, st, ids...)
			lag := func(ms ...int) (l telemetry.LagDurations) {
				for _, n := range ms {
					l.Node.Observe(time.Duration(n) * time.Millisecond)
					l.Total.Observe(time.Duration(n+1) * time.Millisecond)
				}
				return l
			}
			in.counter.load = func() Load {
				if slow.Load() {
					return Load{Retries: int64(3 + i), Lag: lag(2, 2, 900, 900)}
				}
				return Load{Retries: int64(1 + i), Lag: lag(2, 2)}
			}
			in.counter.RequestRefused(enZH, wire.NoCapableNode, 0)
			if i == 0 {
				in.counter.RequestRefused(enZH, wire.AllCandidatesFullOrFailed, 0)
			}
			stop := in.run()
			defer stop()
			readers = append(readers, in.reader)
		}
		sums := func(r *Reader, from time.Time) (retries int64, refusals map[string]int64, lags []wire.ClusterLag) {
			refusals = make(map[string]int64)
			for _, p := range r.Series(from).Points {
				retries += p.Retries
				for code, n := range p.Refusals {
					refusals[code] += n
				}
				if p.Lag != nil {
					lags = append(lags, *p.Lag)
				}
			}
			return retries, refusals, lags
		}
		time.Sleep(30 * time.Second)
		slow.Store(true)
		changed := time.Now()
		time.Sleep(30 * time.Second)
		for i, r := range readers {
			_, refusals, lags := sums(r, time.Time{})
			if diff := cmp.Diff(map[string]int64{"NO_CAPABLE_NODE": 2, "ALL_CANDIDATES_FULL_OR_FAILED": 1}, refusals); diff != "" {
				t.Errorf("%s: refusals (-want +got):\n%s", ids[i], diff)
			}
			if len(lags) < 2 || len(lags) > 4 { // those of the start, and those of the change; the two instances may be in two points
				t.Errorf("%s: %d points have a lag", ids[i], len(lags))
			}
			if retries, _, _ := sums(r, time.Time{}); retries != 3+4 {
				t.Errorf("%s: %d retries, want 7", ids[i], retries)
			}
			_, _, lags = sums(r, changed)
			for _, l := range lags {
				if l.P50MS < 800 || l.P99MS > 1024 || l.Stages.Node.P50MS < 800 || l.Stages.Wait != (wire.Quantiles{}) {
					t.Errorf("%s: after the change the lag is %+v", ids[i], l)
				}
			}
		}
	})
}

// TestCountsOfOtherVersions checks that the counts of an instance are read whatever it publishes as its load.
func TestCountsOfOtherVersions(t *testing.T) {
	t.Parallel()
	for _, load := range []string{
		`{}`, `{"lag":{}}`, `{"lag":{"total":"x","node":[1,2,3],"wait":null,"more":[1,1]}}`, `{"retries":-5}`, `{"lag":null}`,
	} {
		var p published
		if err := json.Unmarshal([]byte(`{"seq":1,"total":{"outcomes":{"DONE":1}},"load":`+load+`}`), &p); err != nil {
			t.Errorf("%s: %v", load, err)
			continue
		}
		h, step := newHistory(), newStepCounts()
		h.add("i-1", p.counted, time.Now(), step)
		point := newPoint(&wire.Stats{GeneratedMS: 1}, step, nil, time.Second)
		if point.Done != 1 || point.Retries != 0 || point.Lag != nil {
			t.Errorf("%s: the point is %+v", load, point)
		}
	}
}

// TestUsedSlots checks that the slots in use are those that the leader knows of, or those of the jobs in flight if these are more, and never
// more than there are.
func TestUsedSlots(t *testing.T) {
	t.Parallel()
	f := fleet.New(time.Hour)
	for i := range 3 {
		n := &core.Node{ID: core.NodeID(fmt.Sprint("n", i)), Epoch: 1, Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 4, Callback: "http://127.0.0.1:9/"}}
		f.Update(store.NodeStatus{Node: n})
		f.ObserveFree(f.Node(n.ID), 3, f.Now())
	}
	nodes := surveyFleet(f, nil, nil).nodes
	if nodes.Slots != 12 || nodes.UsedSlots != 3 {
		t.Fatalf("%d of %d slots are in use, want 3 of 12", nodes.UsedSlots, nodes.Slots)
	}
	for inFlight, want := range map[int]int{0: 3, 3: 3, 7: 7, 20: 12} {
		if got := usedSlots(&wire.Stats{Nodes: nodes, InFlight: inFlight}); got != want {
			t.Errorf("%d jobs in flight: %d slots are in use, want %d", inFlight, got, want)
		}
	}
}

// TestSizeOfLags prints how much the lag adds to what an instance publishes and to a point.
func TestSizeOfLags(t *testing.T) {
	t.Parallel()
	var l telemetry.LagDurations
	for ms := range 3000 {
		d := time.Duration(ms) * time.Millisecond
		for _, part := range []*telemetry.Durations{&l.Segmentation, &l.Wait, &l.Dispatch, &l.Node, &l.Return, &l.Total} {
			part.Observe(d)
		}
	}
	counts, err := json.Marshal(&l)
	point, err2 := json.Marshal(lagOf(&l))
	t.Logf("published: %d bytes, a point: %d bytes", len(counts), len(point))
	if err != nil || err2 != nil || len(counts) > 3000 || len(point) > 400 {
		t.Errorf("%d and %d bytes; %v, %v", len(counts), len(point), err, err2)
	}
}
