// Package memstore is the store of a single scheduler: everything is in the memory of the process. It keeps the same promises as a
// shared store and passes the same suite.
//
// Locks: each node, each shard of jobs and each of the small tables has its own. None is taken while another is held, except that a
// shard of nodes is locked before one of its nodes, and the watchers after a node.
package memstore

import (
	"context"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// shards is over how many locks nodes and jobs are spread. It is a power of two.
const shards = 256

// Store implements store.Store.
type Store struct {
	timing store.Timing
	base   time.Time
	seed   maphash.Seed

	nodes [shards]nodeShard
	jobs  [shards]jobShard

	watchers    watchers
	sessions    sessions
	logs        map[store.Log]*log // never changed
	revocations revocations
	board       board
	values      values
	tenants     tenants
	instances   instances
	queues      queues
}

var _ store.Store = (*Store)(nil)

type nodeShard struct {
	run.RWMutex
	nodes map[core.NodeID]*node
}

// New makes an empty store.
func New(timing store.Timing) *Store {
	s := &Store{timing: timing, base: time.Now(), seed: maphash.MakeSeed()}
	for i := range shards {
		s.nodes[i].RWMutex = run.NewRWMutex("memstore_nodes")
		s.jobs[i].Mutex = run.NewMutex("memstore_jobs")
		s.nodes[i].nodes = make(map[core.NodeID]*node)
		s.jobs[i].records = make(map[core.JobID]record)
	}
	s.watchers.mu = run.NewMutex("memstore_watchers")
	s.sessions.mu = run.NewMutex("memstore_sessions")
	s.sessions.streams = make(map[core.SessionRef]*stream)
	s.sessions.states = make(map[core.SessionKey]state)
	s.logs = map[store.Log]*log{store.EventLog: newLog(), store.AuditLog: newLog()}
	s.revocations.mu = run.NewMutex("memstore_revocations")
	s.revocations.entries = make(map[store.RevocationTarget]store.Revocation)
	s.instances.mu = run.NewMutex("memstore_instances")
	s.instances.byID = make(map[core.InstanceID]*instance)
	s.board.init()
	s.values.mu = run.NewMutex("memstore_values")
	s.values.byKey, s.values.written = make(map[store.ValueKey]*value), rand.IntN(math.MaxInt32) //nolint:gosec // it is no secret
	s.queues.mu = run.NewMutex("memstore_waiting")
	s.queues.byPool = make(map[core.PoolID]*fairqueue.Queue)
	s.tenants.mu = run.NewMutex("memstore_tenants")
	s.tenants.byID = make(map[core.TenantID]*tenant)
	return s
}

// Shared implements store.Store. A process has a memory of its own.
func (s *Store) Shared() bool { return false }

// Ping implements store.Store. Memory is always available.
func (s *Store) Ping(context.Context) error { return nil }

// Close implements store.Store.
func (s *Store) Close() error { return nil }

func (s *Store) shardOf(id string) uint64 { return maphash.String(s.seed, id) & (shards - 1) }

// findNode returns a node, nil when it is not registered.
func (s *Store) findNode(id core.NodeID) *node {
	shard := &s.nodes[s.shardOf(string(id))]
	shard.RLock()
	defer shard.RUnlock()
	return shard.nodes[id]
}

// lockNode finds a node by its handle, or by its id, and returns it locked; nil when it is not registered.
func (s *Store) lockNode(handle store.Handle, id core.NodeID) *node {
	n, _ := handle.(*node)
	for {
		if n == nil {
			if n = s.findNode(id); n == nil {
				return nil
			}
		}
		n.mu.Lock()
		if !n.removed {
			return n
		}
		n.mu.Unlock()
		n = nil
	}
}

// lockRegistered finds a node by its id and returns it locked, for a change. It is an error if the node is not registered, or the caller
// has left.
func (s *Store) lockRegistered(ctx context.Context, id core.NodeID) (*node, error) {
	n := s.lockNode(nil, id)
	if n == nil {
		return nil, store.ErrNoNode
	}
	if err := ctx.Err(); err != nil {
		n.mu.Unlock()
		return nil, err
	}
	return n, nil
}

// eachNode calls fn with every registered node. No shard is locked during the call.
func (s *Store) eachNode(fn func(*node)) {
	var batch []*node
	for i := range s.nodes {
		shard := &s.nodes[i]
		batch = batch[:0]
		shard.RLock()
		for _, n := range shard.nodes {
			batch = append(batch, n)
		}
		shard.RUnlock()
		for _, n := range batch {
			fn(n)
		}
	}
}

// moment is a time on the store's own monotonic clock: nanoseconds since the store was made.
type moment int64

func (s *Store) now() moment { return moment(time.Since(s.base)) }

// time converts a moment to a wall-clock time.
func (s *Store) time(at moment) time.Time { return s.base.Add(time.Duration(at)) }

// Clock implements store.Clocks. There is one clock.
func (s *Store) Clock(context.Context, store.ClockKey) (time.Time, error) {
	return s.time(s.now()), nil
}

// isYoung reports whether jobs of an earlier incarnation of the store may still be running.
func (s *Store) isYoung(now moment) bool { return time.Duration(now) < s.timing.Job }

func (at moment) add(d time.Duration) moment { return at + moment(d) }

func (at moment) since(earlier moment) time.Duration { return time.Duration(at - earlier) }

// expired reports whether an expiry has been reached.
func expired(at, now moment) bool { return now >= at }
