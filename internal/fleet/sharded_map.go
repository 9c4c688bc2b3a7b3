package fleet

import (
	"hash/maphash"
	"iter"
	"maps"
	"sync/atomic"
)

// shardCount is the number of parts of a map, so that adding or removing a value copies a small map.
const shardCount = 256

// shardedMap is a map by ids that is read without a lock. Each shard is immutable and replaced as a whole. Writers must
// not be concurrent.
type shardedMap[K ~string, V comparable] struct {
	seed   maphash.Seed
	shards [shardCount]atomic.Pointer[map[K]V]
}

func (s *shardedMap[K, V]) init(seed maphash.Seed) {
	s.seed = seed
	for i := range s.shards {
		s.shards[i].Store(&map[K]V{})
	}
}

func (s *shardedMap[K, V]) shard(id K) *atomic.Pointer[map[K]V] {
	return &s.shards[maphash.String(s.seed, string(id))&(shardCount-1)]
}

func (s *shardedMap[K, V]) get(id K) V { return (*s.shard(id).Load())[id] }

// values iterates over the values, in no order.
func (s *shardedMap[K, V]) values() iter.Seq[V] {
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

func (s *shardedMap[K, V]) put(id K, v V) {
	shard := s.shard(id)
	current := *shard.Load()
	if old, ok := current[id]; ok && old == v {
		return
	}
	next := maps.Clone(current)
	next[id] = v
	shard.Store(&next)
}

func (s *shardedMap[K, V]) remove(id K) {
	shard := s.shard(id)
	current := *shard.Load()
	if _, ok := current[id]; !ok {
		return
	}
	next := maps.Clone(current)
	delete(next, id)
	shard.Store(&next)
}
