package redisstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// life knows in which life the store is. A store that was emptied is in a new one: what it does not know may still
// be running somewhere.
type life struct {
	name  atomic.Pointer[string]
	began atomic.Int64 // by this process's clock, in milliseconds since base
	base  time.Time
	job   time.Duration
}

// young reports whether jobs of an earlier life may still be running, as far as was known at the last look.
func (l *life) young() bool {
	return time.Since(l.base).Milliseconds()-l.began.Load() < l.job.Milliseconds()
}

// young looks in which life the store is, begins one if it is empty, and reports whether jobs of an earlier one may
// still be running.
func (s *Store) young(ctx context.Context) (bool, error) {
	now, r, err := s.line.run(ctx, &scriptLife, []string{s.keys.incarnation()}, uuid.NewString())
	if err != nil {
		return false, err
	}
	name, age := r.text(0), now-r.int(1)
	l := &s.life
	l.began.Store(time.Since(l.base).Milliseconds() - age)
	if old := l.name.Swap(&name); old != nil && *old != name {
		s.log.Warn("the store was emptied and begins a new life; nodes register again and running work is adopted")
	}
	return l.young(), nil
}
