package redisstore

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

const (
	// reportInterval is how often an instance reports which nodes it has seen.
	reportInterval = 250 * time.Millisecond
	// maxReported is how many nodes one call reports, so that it does not block Redis for long.
	maxReported = 1024
)

// lastSeenReporter collects which nodes were seen by this instance and writes them in batches, with their digests: a write for each
// heartbeat would make a few keys as busy as those of all nodes together.
type lastSeenReporter struct {
	store *Store
	done  chan struct{} // closed when the reporter has to stop

	mu         run.Mutex
	unreported map[core.NodeID]seenNode
}

// seenNode is a node as it was when it was last seen.
type seenNode struct {
	at     time.Time
	digest store.NodeDigest
}

func seenNodeOf(s *store.NodeStatus) seenNode {
	return seenNode{at: time.Now(), digest: store.NodeDigest{
		LastSeen: store.LastSeen{Node: s.Node.ID}, Epoch: s.Node.Epoch, Version: s.Node.Version, Load: s.Load, InFlight: s.InFlight(),
		Slots: s.Slots(),
	}}
}

func newLastSeenReporter(s *Store) *lastSeenReporter {
	return &lastSeenReporter{
		store: s, done: make(chan struct{}), mu: run.NewMutex("redis_last_seen"), unreported: make(map[core.NodeID]seenNode),
	}
}

// record records that a node was just seen.
func (r *lastSeenReporter) record(s *store.NodeStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unreported[s.Node.ID] = seenNodeOf(s)
}

// reportNow reports a node that may be new to the other instances. If that fails, the next batch contains it.
func (r *lastSeenReporter) reportNow(ctx context.Context, s *store.NodeStatus) {
	if err := r.write(ctx, []int{lastSeenShard(s.Node.ID)}, []seenNode{seenNodeOf(s)}); err != nil {
		r.record(s)
	}
}

func (r *lastSeenReporter) stop() { close(r.done) }

// run writes batches until the reporter is stopped, and then the last one.
func (r *lastSeenReporter) run(ctx context.Context) {
	for {
		select {
		case <-r.done:
			r.flush(ctx)
			return
		case <-time.After(run.Jitter(reportInterval, 0.2)):
			r.flush(ctx)
		}
	}
}

// flush writes what was recorded since the last time. What cannot be written is kept, unless the node was seen again.
func (r *lastSeenReporter) flush(ctx context.Context) {
	r.mu.Lock()
	seen := r.unreported
	r.unreported = make(map[core.NodeID]seenNode, len(seen))
	r.mu.Unlock()
	byShard := make([][]seenNode, lastSeenShards)
	for id, s := range seen {
		k := lastSeenShard(id)
		byShard[k] = append(byShard[k], s)
	}
	for _, shards := range r.store.shardGroups() {
		var group []seenNode
		for _, k := range shards {
			group = append(group, byShard[k]...)
		}
		for batch := range slices.Chunk(group, maxReported) {
			if r.write(ctx, shards, batch) != nil {
				r.keep(batch)
			}
		}
	}
}

// keep makes the next batch contain nodes that could not be reported.
func (r *lastSeenReporter) keep(batch []seenNode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range batch {
		if _, newer := r.unreported[s.digest.Node]; !newer {
			r.unreported[s.digest.Node] = s
		}
	}
}

// write writes nodes of some shards.
func (r *lastSeenReporter) write(ctx context.Context, shards []int, seen []seenNode) error {
	names, args := make([]string, 0, 2*len(shards)), make([]string, 0, 4*len(seen))
	for _, k := range shards {
		names = append(names, r.store.keys.lastSeen(k), r.store.keys.digests(k))
	}
	for i := range seen {
		s := &seen[i]
		args = append(args, strconv.Itoa(1+slices.Index(shards, lastSeenShard(s.digest.Node))), string(s.digest.Node),
			strconv.FormatInt(time.Since(s.at).Milliseconds(), 10), encodeDigest(&s.digest))
	}
	_, _, err := r.store.client.runScript(ctx, &scriptRecordLastSeen, names, args...)
	if err == nil {
		r.store.client.health.wrote()
	}
	return err
}

// remove removes a node from the list. If it registers with another instance at the same time, its next heartbeat adds it again.
func (r *lastSeenReporter) remove(ctx context.Context, id core.NodeID) error {
	r.mu.Lock()
	delete(r.unreported, id)
	r.mu.Unlock()
	shard := lastSeenShard(id)
	_, _, err := r.store.client.runScript(ctx, &scriptUnlist, []string{r.store.keys.lastSeen(shard), r.store.keys.digests(shard)},
		string(id))
	return err
}

// allShards and eachShard are the groups of shards that one call may contain: a cluster has each shard in a slot of its own.
var allShards, eachShard = func() (all, each [][]int) {
	all = make([][]int, 1)
	for k := range lastSeenShards {
		all[0], each = append(all[0], k), append(each, []int{k})
	}
	return all, each
}()

func (s *Store) shardGroups() [][]int {
	if s.client.cluster {
		return eachShard
	}
	return allShards
}

// listLastSeen returns when each node was last seen. It makes a call for each shard, so that none blocks Redis for long.
func (s *Store) listLastSeen(ctx context.Context) (store.Overdue, error) {
	var all store.Overdue
	calls := make([]scriptCall, lastSeenShards)
	for k := range calls {
		calls[k] = scriptCall{keys: []string{s.keys.lastSeen(k)}}
	}
	err := s.client.readEach(ctx, &scriptLastSeen, calls, func(_ int, now int64, r reply) {
		all.Nodes = append(all.Nodes, decodeLastSeen(r.texts(0), now)...)
	})
	all.Registered = len(all.Nodes)
	return all, err
}

// decodeLastSeen decodes nodes and the times at which they were seen.
func decodeLastSeen(flat []string, now int64) []store.LastSeen {
	list := make([]store.LastSeen, 0, len(flat)/2)
	for i := 0; i+1 < len(flat); i += 2 {
		at, _ := strconv.ParseFloat(flat[i+1], 64)
		list = append(list, store.LastSeen{Node: core.NodeID(flat[i]), Age: time.Duration(now-int64(at)) * time.Millisecond})
	}
	return list
}

// Overdue implements store.NodeReader. It also checks the incarnation of the store.
func (s *Store) Overdue(ctx context.Context, after time.Duration) (store.Overdue, error) {
	if err := s.confirmIncarnation(ctx); err != nil {
		return store.Overdue{}, err
	}
	if after == 0 {
		return s.listLastSeen(ctx)
	}
	var calls []scriptCall
	for _, shards := range s.shardGroups() {
		call := scriptCall{args: []string{millis(after)}}
		for _, k := range shards {
			call.keys = append(call.keys, s.keys.lastSeen(k))
		}
		calls = append(calls, call)
	}
	var all store.Overdue
	err := s.client.readEach(ctx, &scriptOverdue, calls, func(_ int, now int64, r reply) {
		all.Registered += int(r.int(0))
		if !r.isNil(1) {
			all.Oldest = max(all.Oldest, time.Duration(now-r.int(1))*time.Millisecond)
		}
		all.Nodes = append(all.Nodes, decodeLastSeen(r.texts(2), now)...)
	})
	return all, err
}

// hasNoNodes reports whether no node is registered, unless that would take as many calls as to read them.
func (s *Store) hasNoNodes(ctx context.Context) (bool, error) {
	if s.client.cluster {
		return false, nil
	}
	names := make([]string, lastSeenShards)
	for k := range names {
		names[k] = s.keys.lastSeen(k)
	}
	m, err := s.client.command(ctx, s.client.redis.B().Exists().Key(names...).Build())
	if err != nil {
		return false, err
	}
	shards, err := m.AsInt64()
	return shards == 0, err
}

// Digests implements store.NodeReader.
func (s *Store) Digests(ctx context.Context) ([]store.NodeDigest, error) {
	calls := make([]scriptCall, lastSeenShards)
	for k := range calls {
		calls[k] = scriptCall{keys: []string{s.keys.lastSeen(k), s.keys.digests(k)}}
	}
	if empty, err := s.hasNoNodes(ctx); err != nil || empty {
		return nil, err
	}
	var all []store.NodeDigest
	err := s.client.readEach(ctx, &scriptDigests, calls, func(_ int, now int64, r reply) {
		seen, flat := decodeLastSeen(r.texts(0), now), r.texts(1)
		digests := make(map[core.NodeID]string, len(flat)/2)
		for i := 0; i+1 < len(flat); i += 2 {
			digests[core.NodeID(flat[i])] = flat[i+1]
		}
		for _, node := range seen {
			all = append(all, decodeDigest(node, digests[node.Node]))
		}
	})
	return all, err
}
