package fleet

import (
	"hash/maphash"
	"iter"
	"maps"
	"sync/atomic"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// shardCount is the number of parts of a map, so that adding or removing a node copies a small map.
const shardCount = 256

// shardedMap is a map by node id that is read without a lock. Each shard is immutable and replaced as a whole. Writers must
// not be concurrent.
type shardedMap[V comparable] struct {
	seed   maphash.Seed
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

// values iterates over the values, in no order.
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
	shard := s.shard(id)
	current := *shard.Load()
	if old, ok := current[id]; ok && old == v {
		return
	}
	next := maps.Clone(current)
	next[id] = v
	shard.Store(&next)
}

func (s *shardedMap[V]) remove(id core.NodeID) {
	shard := s.shard(id)
	current := *shard.Load()
	if _, ok := current[id]; !ok {
		return
	}
	next := maps.Clone(current)
	delete(next, id)
	shard.Store(&next)
}
