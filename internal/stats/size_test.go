package stats

import (
	"fmt"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestHistorySize: the stored history of a day is bounded, however many directions are used. It prints what it costs.
func TestHistorySize(t *testing.T) {
	for _, directions := range []int{20, 3 * health.MaxNames} {
		names := make([]string, directions)
		for i := range names {
			names[i] = fmt.Sprintf("q%02x→q%02x", i/100, i%100)
		}
		h, now, total := newHistory(), time.Unix(1_800_000_000, 0), newTally()
		parts := make(map[string][]byte)
		for seq := range uint64(24 * 60) {
			for _, name := range names {
				total.Directions.add(name, 1000, health.MaxNames)
			}
			total.Outcomes.add(core.StateDone.String(), int64(1000*directions), health.MaxNames)
			h.add("i-1", counted{Seq: seq + 1, Total: total.since(tally{})}, now, newStepCounts())
			changed, err := h.parts(now)
			if err != nil {
				t.Fatal(err)
			}
			for name, body := range changed {
				parts[name] = body
			}
			h.stored()
			now = now.Add(time.Minute)
		}
		size := 0
		for _, body := range parts {
			size += len(body)
		}
		t.Logf("%d directions: %d parts, %d KiB", directions, len(parts), size>>10)
		if len(parts) > 60+96+1 || size > 1<<20 {
			t.Errorf("%d directions: %d parts of %d bytes", directions, len(parts), size)
		}
	}
}

// BenchmarkSurvey measures a pass over 10,000 nodes with 200 directions.
func BenchmarkSurvey(b *testing.B) {
	f := fleet.New(time.Hour)
	var langs []core.Lang
	for i := range 15 {
		langs = append(langs, core.Lang(fmt.Sprintf("q%c", 'a'+i)))
	}
	for i := range 10_000 {
		n := &core.Node{
			ID: core.NodeID(fmt.Sprint("n", i)), Epoch: 1, Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 4, Callback: "http://127.0.0.1:9/",
				Capability: core.Capability{Semantic: langs, AnyPair: true, Services: []core.Service{{ID: "asr", Type: "asr", Status: core.ServiceReady}}}},
		}
		n.Normalise()
		f.Update(store.NodeStatus{Node: n})
	}
	b.ResetTimer()
	for range b.N {
		surveyFleet(f, nil, nil)
	}
}
