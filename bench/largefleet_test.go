package bench

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
)

const (
	largeFleet      = 100_000
	largeLanguages  = 30
	largePerNode    = 12
	largeDirections = 200
)

// BenchmarkLargeFleet measures the view of 100,000 nodes with twelve of thirty languages each: its memory, the time that a node takes to
// enter, with 200 directions in use, and the first use of a direction.
func BenchmarkLargeFleet(b *testing.B) {
	langs := make([]core.Lang, largeLanguages)
	for i := range langs {
		langs[i] = core.Lang(fmt.Sprintf("q%c", 'a'+i))
	}
	for b.Loop() {
		rng := rand.New(rand.NewPCG(1, 2))
		before := heapInUse()
		view := fleet.New(time.Hour)
		for i := range largeDirections {
			view.Index(core.Direction{Src: langs[i%largeLanguages], Tgt: langs[(i/largeLanguages+i+1)%largeLanguages]}, false)
		}
		began := time.Now()
		for i := range largeFleet {
			view.Update(store.NodeStatus{Node: decodedNode(b, rng, i, langs), Load: core.UnknownLoad})
		}
		entered := time.Since(began)
		after := heapInUse()
		var first []time.Duration
		for i := range 50 {
			d := core.Direction{Src: langs[i%largeLanguages], Tgt: langs[(i+17)%largeLanguages]}
			began := time.Now()
			view.Index(d, true)
			first = append(first, time.Since(began))
		}
		b.ReportMetric(float64(after-before)/largeFleet, "B/node")
		b.ReportMetric(float64(entered.Microseconds())/largeFleet, "µs/entry")
		b.ReportMetric(float64(stats.Median(first).Microseconds()), "µs-first-use")
		runtime.KeepAlive(view)
	}
	b.ReportMetric(0, "ns/op")
}

// decodedNode makes a node as a store returns it: nothing of it is shared with other nodes.
func decodedNode(b *testing.B, rng *rand.Rand, i int, langs []core.Lang) *core.Node {
	own := make([]core.Lang, 0, largePerNode)
	for _, k := range rng.Perm(len(langs))[:largePerNode] {
		own = append(own, langs[k])
	}
	body, err := json.Marshal(core.Node{
		ID: core.NodeID(fmt.Sprintf("node-%06d", i)), Epoch: 1, Revision: 1, Version: 1, Health: core.HealthReady, MaxJobs: 4, Callback: "http://10.0.0.1:9000/jobs",
		Capability: core.Capability{ASR: core.NewLangSet(own...), Semantic: core.NewLangSet(own...), TTS: core.NewLangSet(own...), AnyPair: true},
	})
	if err != nil {
		b.Fatal(err)
	}
	n := new(core.Node)
	if err := json.Unmarshal(body, n); err != nil {
		b.Fatal(err)
	}
	return n
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
