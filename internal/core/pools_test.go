package core

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func poolNode(id NodeID, services ...Service) *Node {
	n := &Node{ID: id, Declaration: Declaration{Capability: Capability{Services: services}}}
	n.Normalise()
	return n
}

func TestAssign(t *testing.T) {
	t.Parallel()
	p := &Pools{Defined: []PoolDefinition{
		{ID: "large", RequiredServices: []string{"asr@>=2", "nmt"}},
		{ID: "speaking", RequiredServices: []string{"asr", "nmt", "tts"}},
	}}
	asr1, asr2, nmt, tts := Service{ID: "asr", Version: "1.0"}, Service{ID: "asr", Version: "2.0"}, Service{ID: "nmt"}, Service{ID: "tts"}
	pinned := func(n *Node, pool PoolID) *Node {
		n.Pool = pool
		return n
	}
	for name, c := range map[string]struct {
		node *Node
		want Assignment
	}{
		"one pool matches":           {poolNode("n", asr2, nmt), Assignment{Pool: "large"}},
		"the version is too old":     {poolNode("n", asr1, nmt), Assignment{Missing: "asr@>=2", Closest: "large"}},
		"none matches":               {poolNode("n", asr1, tts), Assignment{Missing: "nmt", Closest: "speaking"}},
		"a node without services":    {poolNode("n"), Assignment{Missing: "asr@>=2", Closest: "large"}},
		"pinned":                     {pinned(poolNode("n", asr2, nmt, tts), "speaking"), Assignment{Pool: "speaking"}},
		"pinned and lacking":         {pinned(poolNode("n", asr2, nmt), "speaking"), Assignment{Missing: "tts", Closest: "speaking"}},
		"pinned to a pool that left": {pinned(poolNode("n", asr2, nmt), "gone"), Assignment{Closest: "gone"}},
	} {
		if diff := cmp.Diff(c.want, p.Assign(c.node)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestAddedPoolMovesFewNodes checks that a pool that is added takes its share of the nodes and moves no other.
func TestAddedPoolMovesFewNodes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pools, nodes := rapid.IntRange(1, 30).Draw(t, "pools"), 2000
		named := rapid.Bool().Draw(t, "named")
		prefix := rapid.SampledFrom([]string{"node-", "gpu:", "a.b.", ""}).Draw(t, "prefix")
		before, after := &Pools{Seed: rapid.Uint64().Draw(t, "seed")}, new(Pools)
		for i := range pools {
			before.Defined = append(before.Defined, PoolDefinition{ID: PoolID(fmt.Sprint("p", i))})
		}
		*after = *before
		added := PoolID("added")
		if named {
			after.Defined = append([]PoolDefinition{{ID: added}}, before.Defined...)
		} else {
			before.Defined, after.Defined = nil, nil
			before.Buckets, after.Buckets = pools, pools+1
			added = bucketID(pools)
		}
		moved, counts := 0, make(map[PoolID]int)
		for i := range nodes {
			n := poolNode(NodeID(fmt.Sprint(prefix, i)))
			from, to := before.Assign(n).Pool, after.Assign(n).Pool
			counts[to]++
			if from != to {
				moved++
				if to != added {
					t.Fatalf("%s moved from %s to %s, which is not the pool that was added", n.ID, from, to)
				}
			}
		}
		if share, limit := float64(moved)/float64(nodes), 1/float64(pools+1)+0.05; share > limit {
			t.Fatalf("%.3f of the nodes moved, want at most %.3f", share, limit)
		}
		for id, n := range counts {
			if mean := float64(nodes) / float64(pools+1); float64(n) > 2*mean+20 {
				t.Fatalf("%s has %d nodes, the mean is %.0f", id, n, mean)
			}
		}
	})
}

// TestAssignmentNeverChanges checks the pools of some nodes: another hash would move the nodes of every deployment.
func TestAssignmentNeverChanges(t *testing.T) {
	t.Parallel()
	p := &Pools{Seed: 7, Buckets: 5}
	got := make(map[NodeID]PoolID)
	for _, id := range []NodeID{"node-1", "node-2", "node-3", "gpu-a"} {
		got[id] = p.Assign(poolNode(id)).Pool
	}
	want := map[NodeID]PoolID{"node-1": "bucket-3", "node-2": "bucket-2", "node-3": "bucket-3", "gpu-a": "bucket-2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	d := PoolDefinition{RequiredServices: []string{"asr@2.1", "nmt@>=3", "tts"}}
	for required, want := range map[string]bool{
		"asr": true, "asr@2.1": true, "asr@>=2": true, "asr@>=2,<3": true, "asr@>=3": false,
		"nmt": true, "nmt@>=3": true, "nmt@>=2": true, "nmt@>2": true, "nmt@>=3.0": true, "nmt@>3": false, "nmt@3": false, "nmt@>=3,<4": false,
		"tts": true, "tts@1": false, "tone": false,
	} {
		if got := d.Covers(required); got != want {
			t.Errorf("Covers(%q) = %v, want %v", required, got, want)
		}
	}
}

func TestValidatePools(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]*Pools{
		"": {Defined: []PoolDefinition{{ID: "a", RequiredServices: []string{"asr@>=2"}}}, Overrides: map[TenantID]PoolID{"t": "a"}, Scope: ScopeAll},
		"pool none: this pool_id has a meaning in metrics: choose another one":                                                                       {Defined: []PoolDefinition{{ID: "none"}}},
		"pool other: this pool_id has a meaning in metrics: choose another one":                                                                      {Defined: []PoolDefinition{{ID: "other"}}},
		`pool a: required_services: "nmt@" has no version after the @: write nmt for any version, or conditions such as 2.1, >=3 or >=3,<4 after it`: {Defined: []PoolDefinition{{ID: "a", RequiredServices: []string{"nmt@"}}}},
		`pool a: required_services: "nmt>=3": put an @ before the version: nmt@>=3`:                                                                  {Defined: []PoolDefinition{{ID: "a", RequiredServices: []string{"nmt>=3"}}}},
		"pool a is defined twice": {Defined: []PoolDefinition{{ID: "a"}, {ID: "a"}}},
		`pool "b c": its pool_id must be 1 to 128 characters out of A-Z a-z 0-9 . _ : -`:                                         {Defined: []PoolDefinition{{ID: "b c"}}},
		`the tenant t is bound to the pool "b", which does not exist`:                                                            {Buckets: 3, Overrides: map[TenantID]PoolID{"t": "b"}},
		`"some" is not a scope: use core_only or all_required`:                                                                   {Scope: "some"},
		`pool a: required_services: "@2" has no id: write an id, or an id and its versions, such as asr-large@2.1 or nmt@>=3,<4`: {Defined: []PoolDefinition{{ID: "a", RequiredServices: []string{"@2"}}}},
		"there are 1001 pools; the maximum is 1000":                                                                              {Buckets: 1001},
		"-1 is not a number of pools":                                                                                            {Buckets: -1, Overrides: map[TenantID]PoolID{"t": "b"}},
		"there are 9223372036854775807 pools; the maximum is 1000":                                                               {Buckets: math.MaxInt, Defined: []PoolDefinition{{ID: "a"}}},
	} {
		got := ""
		if err := p.Validate(); err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
