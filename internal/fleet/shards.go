package fleet

import (
	"hash/maphash"
	"iter"
	"maps"
	"sync/atomic"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// shardCount splits a map of nodes, so that a node that comes or goes costs a copy of a small map.
const shardCount = 256

// shards is a map of nodes that is read without a lock. Each of its parts is immutable and replaced whole. Writers take turns.
type shardedMap[V comparable] struct {
	seed  maphash.Seed
	shards [shardCount]atomic.Pointer[map[core.NodeID]V]
}

func (s *shardedMap[V]) init(seed maphash.Seed) {
	s.seed = seed
	for i := range s.shards {
		s.shards[i].Store(&map[core.NodeID]V{})
	}
}

func (s *shardedMap[V]) shard(id core.NodeID) *atomic.Pointer[map[core.NodeID]V] {
	return &s.shards[maphash.String(s.seed, string(id))&(shardCount-1)]
}

func (s *shardedMap[V]) get(id core.NodeID) V { return (*s.shard(id).Load())[id] }

// values walks what is in the map, in no order.
func (s *shardedMap[V]) values() iter.Seq[V] {
	return func(yield func(V) bool) {
		for i := range s.shards {
			for _, v := range *s.shards[i].Load() {
				if !yield(v) {
					return
				}
			}
		}
	}
}

func (s *shardedMap[V]) put(id core.NodeID, v V) {
	part := s.shard(id)
	known := *part.Load()
	if old, ok := known[id]; ok && old == v {
		return
	}
	next := maps.Clone(known)
	next[id] = v
	part.Store(&next)
}

func (s *shardedMap[V]) remove(id core.NodeID) {
	part := s.shard(id)
	known := *part.Load()
	if _, ok := known[id]; !ok {
		return
	}
	next := maps.Clone(known)
	delete(next, id)
	part.Store(&next)
}
