package redisstore

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// tellEvery is how often the others are told which nodes were heard here.
const tellEvery = 250 * time.Millisecond

// sightings gathers which nodes were heard here and tells the others in batches: a write for each heartbeat would
// make a few keys as busy as all nodes together.
type sightings struct {
	s    *Store
	done chan struct{} // closed when no more is to be told

	mu    sync.Mutex
	heard map[core.NodeID]time.Time
}

func newSightings(s *Store) *sightings {
	return &sightings{s: s, done: make(chan struct{}), heard: make(map[core.NodeID]time.Time)}
}

// tell notes that a node was just heard.
func (t *sightings) tell(id core.NodeID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard[id] = time.Now()
}

// tellNow tells of a node that nobody may know of yet. If it cannot, the next batch does.
func (t *sightings) tellNow(ctx context.Context, id core.NodeID) {
	if err := t.write(ctx, seenShard(id), map[core.NodeID]time.Time{id: time.Now()}); err != nil {
		t.tell(id)
	}
}

func (t *sightings) stop() { close(t.done) }

// run tells what was heard, every now and then, and what was heard last when it is stopped.
func (t *sightings) run(ctx context.Context) {
	for {
		select {
		case <-t.done:
			t.flush(ctx)
			return
		case <-time.After(backoff.Jitter(tellEvery, 0.2)):
			t.flush(ctx)
		}
	}
}

// flush tells what was heard since the last time. What cannot be told is kept, unless the node was heard again.
func (t *sightings) flush(ctx context.Context) {
	t.mu.Lock()
	heard := t.heard
	t.heard = make(map[core.NodeID]time.Time, len(heard))
	t.mu.Unlock()
	shards := make(map[int]map[core.NodeID]time.Time)
	for id, at := range heard {
		k := seenShard(id)
		if shards[k] == nil {
			shards[k] = make(map[core.NodeID]time.Time)
		}
		shards[k][id] = at
	}
	for k, some := range shards {
		if t.write(ctx, k, some) == nil {
			continue
		}
		t.mu.Lock()
		for id, at := range some {
			if _, again := t.heard[id]; !again {
				t.heard[id] = at
			}
		}
		t.mu.Unlock()
	}
}

func (t *sightings) write(ctx context.Context, shard int, heard map[core.NodeID]time.Time) error {
	args := make([]string, 0, 2*len(heard))
	for id, at := range heard {
		args = append(args, string(id), strconv.FormatInt(time.Since(at).Milliseconds(), 10))
	}
	_, _, err := t.s.line.run(ctx, &scriptSeen, []string{t.s.keys.lastSeen(shard)}, args...)
	if err == nil {
		t.s.line.health.wrote()
	}
	return err
}

// forget takes a node off the list. If it registers elsewhere at the same moment, its next heartbeat puts it back.
func (t *sightings) forget(ctx context.Context, id core.NodeID) error {
	t.mu.Lock()
	delete(t.heard, id)
	t.mu.Unlock()
	line := t.s.line
	_, err := line.one(line.begin(ctx), line.redis.B().Zrem().Key(t.s.keys.lastSeen(seenShard(id))).Member(string(id)).Build())
	return err
}

// Sightings implements store.Census. It also looks in which life the store is.
func (s *Store) LastSeen(ctx context.Context) ([]store.LastSeen, error) {
	if _, err := s.young(ctx); err != nil {
		return nil, err
	}
	asks := make([]ask, seenShards)
	for k := range asks {
		asks[k] = ask{keys: []string{s.keys.lastSeen(k)}}
	}
	var all []store.LastSeen
	err := s.line.readEach(ctx, &scriptSightings, asks, func(_ int, now int64, r reply) error {
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
