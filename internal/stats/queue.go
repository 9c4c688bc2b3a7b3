package stats

import (
	"sync/atomic"

	"github.com/lingua-scheduler/lingua/internal/run"
)

const (
	queueShards = 16
	// queueLimit bounds the entries of a shard that wait to be read: at 20,000 jobs a second, those of a second and more.
	queueLimit = 4096
)

// queue hands entries of many goroutines to one reader. Adding copies an entry into a buffer and never waits for the reader, which
// nothing wakes: it takes what there is from time to time. Entries with the same key keep their order.
type queue[T any] struct {
	shards  [queueShards]queueShard[T]
	dropped atomic.Int64
}

type queueShard[T any] struct {
	mu      run.Mutex
	entries []T
	spare   []T // the buffer of the last read, of the reader alone
	_       [64]byte
}

func (q *queue[T]) init() {
	for i := range q.shards {
		q.shards[i].mu = run.NewMutex("guard_observations")
	}
}

// add adds an entry, or counts it as dropped if the reader is too slow.
func (q *queue[T]) add(key uint64, entry T) {
	s := &q.shards[key%queueShards]
	s.mu.Lock()
	if len(s.entries) >= queueLimit {
		s.mu.Unlock()
		q.dropped.Add(1)
		return
	}
	s.entries = append(s.entries, entry)
	s.mu.Unlock()
}

// take calls fn with every entry and removes it. There is one reader.
func (q *queue[T]) take(fn func(*T)) {
	for i := range q.shards {
		s := &q.shards[i]
		s.mu.Lock()
		entries := s.entries
		s.entries = s.spare[:0]
		s.mu.Unlock()
		for k := range entries {
			fn(&entries[k])
		}
		clear(entries) // they may point to records of jobs
		s.spare = entries
	}
}
