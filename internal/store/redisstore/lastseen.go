package redisstore

import (
	"context"
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/lockwait"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// reportInterval is how often an instance reports which nodes it has seen.
const reportInterval = 250 * time.Millisecond

// lastSeenReporter collects which nodes were seen by this instance and writes them in batches: a write for each heartbeat would make
// a few keys as busy as those of all nodes together.
type lastSeenReporter struct {
	store *Store
	done  chan struct{} // closed when the reporter has to stop

	mu         lockwait.Mutex[lockwait.RedisLastSeen]
	unreported map[core.NodeID]time.Time
}

func newLastSeenReporter(s *Store) *lastSeenReporter {
	return &lastSeenReporter{store: s, done: make(chan struct{}), unreported: make(map[core.NodeID]time.Time)}
}

// record records that a node was just seen.
func (r *lastSeenReporter) record(id core.NodeID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unreported[id] = time.Now()
}

// reportNow reports a node that may be new to the other instances. If that fails, the next batch contains it.
func (r *lastSeenReporter) reportNow(ctx context.Context, id core.NodeID) {
	if err := r.write(ctx, lastSeenShard(id), map[core.NodeID]time.Time{id: time.Now()}); err != nil {
		r.record(id)
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
		case <-time.After(backoff.Jitter(reportInterval, 0.2)):
			r.flush(ctx)
		}
	}
}

// flush writes what was recorded since the last time. What cannot be written is kept, unless the node was seen again.
func (r *lastSeenReporter) flush(ctx context.Context) {
	r.mu.Lock()
	seen := r.unreported
	r.unreported = make(map[core.NodeID]time.Time, len(seen))
	r.mu.Unlock()
	shards := make(map[int]map[core.NodeID]time.Time)
	for id, at := range seen {
		k := lastSeenShard(id)
		if shards[k] == nil {
			shards[k] = make(map[core.NodeID]time.Time)
		}
		shards[k][id] = at
	}
	for k, nodes := range shards {
		if r.write(ctx, k, nodes) == nil {
			continue
		}
		r.mu.Lock()
		for id, at := range nodes {
			if _, newer := r.unreported[id]; !newer {
				r.unreported[id] = at
			}
		}
		r.mu.Unlock()
	}
}

func (r *lastSeenReporter) write(ctx context.Context, shard int, seen map[core.NodeID]time.Time) error {
	args := make([]string, 0, 2*len(seen))
	for id, at := range seen {
		args = append(args, string(id), strconv.FormatInt(time.Since(at).Milliseconds(), 10))
	}
	_, _, err := r.store.client.runScript(ctx, &scriptRecordLastSeen, []string{r.store.keys.lastSeen(shard)}, args...)
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
	client := r.store.client
	_, err := client.command(ctx, client.redis.B().Zrem().Key(r.store.keys.lastSeen(lastSeenShard(id))).Member(string(id)).Build())
	return err
}

// LastSeen implements store.NodeReader. It also checks the incarnation of the store.
func (s *Store) LastSeen(ctx context.Context) ([]store.LastSeen, error) {
	if _, err := s.checkIncarnation(ctx); err != nil {
		return nil, err
	}
	calls := make([]scriptCall, lastSeenShards)
	for k := range calls {
		calls[k] = scriptCall{keys: []string{s.keys.lastSeen(k)}}
	}
	var all []store.LastSeen
	err := s.client.readEach(ctx, &scriptLastSeen, calls, func(_ int, now int64, r reply) error {
		flat := r.texts(0)
		for i := 0; i+1 < len(flat); i += 2 {
			at, _ := strconv.ParseFloat(flat[i+1], 64)
			all = append(all, store.LastSeen{
				Node: core.NodeID(flat[i]), Age: time.Duration(now-int64(at)) * time.Millisecond,
			})
		}
		return nil
	})
	return all, err
}
