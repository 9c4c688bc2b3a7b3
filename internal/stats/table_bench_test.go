package stats

import (
	"fmt"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// benchFleet has 10,000 nodes, each with some of thirty languages and five services.
func benchFleet() *fleet.Fleet {
	f := fleet.New(presence * 1000)
	for i := range 10_000 {
		f.Update(node(core.NodeID(fmt.Sprintf("gpu-%03d-%05d", i*7919%97, i)), declares(func(n *core.Node) {
			var langs []core.Lang
			for j := range 12 {
				langs = append(langs, core.Lang(fmt.Sprintf("x%c", 'a'+(i+j)%26)))
			}
			n.Semantic, n.TTS = core.NewLangSet(langs...), core.NewLangSet(langs...)
			for j := range 5 {
				n.Services = append(n.Services, core.Service{ID: fmt.Sprintf("service-%d", j), Version: "1.2.3", Status: core.ServiceReady})
			}
			n.Region, n.MaxJobs = fmt.Sprintf("region-%d", i%8), 1+i%8
		}), func(s *store.NodeStatus) {
			s.Load = core.Load{CPU: float64(i%100) / 100, GPU: float64(i%83) / 83, Memory: 0.5}
		}))
	}
	return f
}

// BenchmarkSnapshot makes snapshots of 10,000 nodes: the first, for which every declaration is new, and the next ones.
func BenchmarkSnapshot(b *testing.B) {
	f := benchFleet()
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			NewNodeTable(f, NewNodeSeries(f), presence).build()
		}
	})
	b.Run("next", func(b *testing.B) {
		table := NewNodeTable(f, NewNodeSeries(f), presence)
		table.build()
		for b.Loop() {
			table.build()
		}
	})
}

// BenchmarkRead reads a page of 200 of 10,000 nodes, with the filters and orders that cost most.
func BenchmarkRead(b *testing.B) {
	table := NewNodeTable(benchFleet(), nil, presence)
	s := table.build()
	for name, q := range map[string]NodeQuery{
		"all":       {},
		"search":    {Search: "-0012"},
		"language":  {Lang: "xk"},
		"direction": {Serves: &core.Direction{Src: "xk", Tgt: "xm"}},
		"service":   {Service: "service-3@1.2.3"},
		"load":      {Sort: ByLoad, Descending: true},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				fresh := snapshot{made: s.made, rows: s.rows, kinds: s.kinds} // the order is made for each, as for the first request after a snapshot
				q := q
				q.Limit = 200
				fresh.read(&q)
			}
		})
	}
}
