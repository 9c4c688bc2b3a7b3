package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/bench/inprocess"
	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

const (
	largeFleet      = 100_000
	largePools      = 50
	largeLanguages  = 30
	largePerNode    = 12
	largeDirections = 200
	smallFleet      = 1000
)

// largeLangs are the languages: en, zh and others.
func largeLangs() []core.Lang {
	langs := []core.Lang{"en", "zh"}
	for i := len(langs); i < largeLanguages; i++ {
		langs = append(langs, core.Lang(fmt.Sprintf("q%c", 'a'+i)))
	}
	return langs
}

// directionsInUse are so many directions of these languages.
func directionsInUse(langs []core.Lang) []core.Direction {
	all := []core.Direction{{Src: "en", Tgt: "zh"}}
	for i := 1; len(all) < largeDirections; i++ {
		if d := (core.Direction{Src: langs[i%len(langs)], Tgt: langs[(i/len(langs)+i+1)%len(langs)]}); d.Src != d.Tgt {
			all = append(all, d)
		}
	}
	return all
}

// BenchmarkLargeFleet measures a scheduler in memory with 100,000 nodes of twelve languages each, 200 directions in use and 50 pools: how fast
// the nodes register, and what that does to dispatch; the memory of a node; the first use of a direction; and the cost of a decision relative
// to 1,000 nodes and one pool.
func BenchmarkLargeFleet(b *testing.B) {
	for b.Loop() {
		langs := largeLangs()
		before := heapInUse()
		s, stop := inprocess.Start(b, 0, 0, true, func(c *config.Config) {
			p := &c.Scheduler.Phase3
			p.Enabled = true
			for i := range largePools {
				p.Pools = append(p.Pools, config.PoolTable{PoolID: config.PoolID(fmt.Sprint("pool-", i)), RequiredServices: []string{fmt.Sprint("asr-", i%5), fmt.Sprint("nmt-", i/5)}})
			}
		})
		rng := rand.New(rand.NewPCG(1, 2))
		registerMany(b, s, rng, langs, 0, smallFleet)
		directions := directionsInUse(langs)
		for _, d := range directions {
			s.Fleet.Route(d, false)
		}
		inprocess.DispatchAtRate(b, s, 1000, time.Second) // warms up
		calm := inprocess.DispatchAtRate(b, s, 1000, 5*time.Second)
		done := make(chan time.Duration)
		go func() {
			began := time.Now()
			registerMany(b, s, rng, langs, smallFleet, largeFleet)
			done <- time.Since(began)
		}()
		var during inprocess.Window
		took := time.Duration(0)
		for took == 0 {
			w := inprocess.DispatchAtRate(b, s, 1000, time.Second)
			if during.Latencies == nil {
				during = w
			} else {
				during.Latencies.Merge(w.Latencies)
			}
			during.Failed += w.Failed
			select {
			case took = <-done:
			default:
			}
		}
		if calm.Failed+during.Failed > 0 {
			b.Errorf("%d dispatches failed", calm.Failed+during.Failed)
		}
		b.ReportMetric(took.Seconds(), "s-registrations")
		b.ReportMetric(float64(calm.Latencies.ValueAtQuantile(99)), "µs-p99-calm")
		b.ReportMetric(float64(during.Latencies.ValueAtQuantile(99)), "µs-p99-registrations")
		b.ReportMetric(float64(heapInUse()-before)/largeFleet, "B/node")
		reportFirstUse(b, s, langs)
		reportDecisions(b, s, directions, langs)
		stop()
	}
	b.ReportMetric(0, "ns/op")
}

// registerMany registers nodes by their numbers.
func registerMany(b *testing.B, s *scheduler.Scheduler, rng *rand.Rand, langs []core.Lang, from, to int) {
	slots, url, region := 4, "http://10.0.0.1:9000/jobs", "eu"
	for i := from; i < to; i++ {
		if _, err := s.Nodes.Register(context.Background(), inprocess.NodeID(i), largeNode(rng, langs, slots, url, region), nodes.Caller{}, store.Activity{}); err != nil {
			b.Error(err)
			return
		}
	}
}

// largeNode declares twelve of the languages, and a service of each of four types. Nothing of it is shared with other nodes.
func largeNode(rng *rand.Rand, langs []core.Lang, slots int, url, region string) core.Change {
	own := make([]core.Lang, 0, largePerNode)
	for _, k := range rng.Perm(len(langs))[:largePerNode] {
		own = append(own, core.Lang([]byte(langs[k])))
	}
	services := []core.Service{
		{ID: fmt.Sprint("asr-", rng.IntN(5)), Type: "asr", Version: "2.1", Status: core.ServiceReady},
		{ID: fmt.Sprint("nmt-", rng.IntN(10)), Type: "nmt", Version: "3.0", Status: core.ServiceReady},
		{ID: fmt.Sprint("semantic-", rng.IntN(3)), Type: "semantic", Version: "1.0", Status: core.ServiceReady},
		{ID: fmt.Sprint("tts-", rng.IntN(5)), Type: "tts", Version: "1.4", Status: core.ServiceReady},
	}
	return core.Change{
		Declaration: core.Declaration{MaxJobs: slots, Callback: url, Region: region, Capability: core.Capability{Services: services,
			ASR: core.NewLangSet(own...), Semantic: core.NewLangSet(own...), TTS: core.NewLangSet(own...)}},
	}
}

// reportFirstUse measures the first use of directions: of all pools.
func reportFirstUse(b *testing.B, s *scheduler.Scheduler, langs []core.Lang) {
	b.Helper()
	var first []time.Duration
	for i := range 50 {
		d := core.Direction{Src: langs[i%largeLanguages], Tgt: langs[(i+17)%largeLanguages]}
		began := time.Now()
		s.Fleet.Route(d, true)
		first = append(first, time.Since(began))
	}
	b.ReportMetric(float64(stats.Median(first).Microseconds()), "µs-first-use")
	b.ReportMetric(float64(stats.Percentile(first, 1).Microseconds()), "µs-first-use-max")
}

// reportDecisions compares decisions in this fleet with those in a small one with one pool, in turns: once with jobs of all directions in equal
// parts, and once as they are used, where the n-th direction has 1/n of the jobs of the first.
func reportDecisions(b *testing.B, s *scheduler.Scheduler, directions []core.Direction, langs []core.Lang) {
	b.Helper()
	small, stop := inprocess.Start(b, 0, 0, true, func(c *config.Config) {
		c.Scheduler.Phase3.Enabled, c.Scheduler.Phase3.Pools = true, []config.PoolTable{{PoolID: "all"}}
	})
	defer stop()
	registerMany(b, small, rand.New(rand.NewPCG(3, 4)), langs, 0, smallFleet)
	few, many := newMemoryBaseline(smallFleet, 1, largeDirections), newMemoryBaseline(largeFleet, largePools, largeDirections)
	shares := sharesAsUsed()
	used := make([]core.Direction, len(shares))
	for i, k := range shares {
		used[i] = directions[k]
	}
	deciders := []*decisionBench{decisionsOf(small, used), decisionsOf(s, used), decisionsOf(small, directions), decisionsOf(s, directions)}
	for _, d := range deciders {
		for range d.directions {
			d.decide(b)
		}
	}
	runtime.GC() // the garbage of the set-up is not part of a decision
	costs, wait := decideInTurns(b, 21, deciders, shares, few, many)
	for i, name := range []string{"", "-equal-parts"} {
		fewer, more := costs[2*i], costs[2*i+1]
		b.ReportMetric(fewer, "ns-small"+name)
		b.ReportMetric(more, "ns-large"+name)
		b.ReportMetric(more/fewer, "growth"+name)
	}
	b.ReportMetric(wait, "ns-memory")
}

// sharesAsUsed returns a random sequence of the numbers of the directions in which the n-th direction has 1/n of the places of the first.
func sharesAsUsed() []int {
	ends, sum := make([]float64, largeDirections), 0.0
	for i := range ends {
		sum += 1 / float64(i+1)
		ends[i] = sum
	}
	rng := rand.New(rand.NewPCG(5, 6))
	sequence := make([]int, 10_000)
	for i := range sequence {
		sequence[i], _ = slices.BinarySearch(ends, rng.Float64()*sum)
	}
	return sequence
}

func decisionsOf(s *scheduler.Scheduler, directions []core.Direction) *decisionBench {
	return &decisionBench{mem: s.Store.(*memstore.Store), view: s.Fleet, directions: directions, picker: pick.New(s.Fleet, decisionPolicy, nil)}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
