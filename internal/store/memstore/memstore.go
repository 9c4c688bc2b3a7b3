// Package memstore is the store of a scheduler that runs alone: everything in the memory of one process,
// nothing to install. It keeps the same promises as a shared store and passes the same suite.
//
// Locks: each node, each shard of jobs and each of the small tables has its own, and none is taken while
// another is held, but for a shard of nodes before one of its nodes.
package memstore

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// shards spreads nodes and jobs over locks. It is a power of two.
const shards = 256

// Store implements store.Store.
type Store struct {
	timing store.Timing
	base   time.Time
	seed   maphash.Seed

	nodes [shards]nodeShard
	jobs  [shards]jobShard

	watchers watchers
	sessions sessions
	board    board
	mail     mail
}

var _ store.Store = (*Store)(nil)

type nodeShard struct {
	sync.RWMutex
	m map[core.NodeID]*node
}

// New makes an empty store.
func New(timing store.Timing) *Store {
	s := &Store{timing: timing, base: time.Now(), seed: maphash.MakeSeed()}
	for i := range shards {
		s.nodes[i].m = make(map[core.NodeID]*node)
		s.jobs[i].m = make(map[core.JobID]record)
	}
	s.sessions.streams = make(map[core.SessionRef]*stream)
	s.sessions.states = make(map[core.SessionKey]state)
	s.mail.boxes = make(map[core.InstanceID]*box)
	s.board.init()
	return s
}

// Ping implements store.Store: memory is always there.
func (s *Store) Ping(context.Context) error { return nil }

// Close implements store.Store.
func (s *Store) Close() error { return nil }

func (s *Store) shardOf(id string) uint64 { return maphash.String(s.seed, id) & (shards - 1) }

// node finds a node; nil when it is not registered.
func (s *Store) node(id core.NodeID) *node {
	shard := &s.nodes[s.shardOf(string(id))]
	shard.RLock()
	defer shard.RUnlock()
	return shard.m[id]
}

// locked finds a node by the caller's handle or by its name and returns it locked; nil when it is not
// registered.
func (s *Store) locked(handle store.Handle, id core.NodeID) *node {
	n, _ := handle.(*node)
	for {
		if n == nil {
			if n = s.node(id); n == nil {
				return nil
			}
		}
		n.mu.Lock()
		if !n.gone {
			return n
		}
		n.mu.Unlock()
		n = nil
	}
}

// eachNode calls fn with every registered node, holding no lock of the shards while it does.
func (s *Store) eachNode(fn func(*node)) {
	var batch []*node
	for i := range s.nodes {
		shard := &s.nodes[i]
		batch = batch[:0]
		shard.RLock()
		for _, n := range shard.m {
			batch = append(batch, n)
		}
		shard.RUnlock()
		for _, n := range batch {
			fn(n)
		}
	}
}

// moment is a point on the store's own clock, which is monotonic: nanoseconds since the store was made.
type moment int64

func (s *Store) now() moment { return moment(time.Since(s.base)) }

// time is the moment as it leaves the store.
func (s *Store) time(at moment) time.Time { return s.base.Add(time.Duration(at)) }

// newborn reports whether jobs of an earlier life of the store may still be running.
func (s *Store) newborn(now moment) bool { return time.Duration(now) < s.timing.Job }

func (at moment) add(d time.Duration) moment { return at + moment(d) }

func (at moment) since(earlier moment) time.Duration { return time.Duration(at - earlier) }

// expired reports whether a moment lies behind now. A thing that expires now has expired.
func expired(at, now moment) bool { return now >= at }
