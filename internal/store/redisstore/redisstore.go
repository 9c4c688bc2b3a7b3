package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// Options is how a store is opened.
type Options struct {
	Address Address
	Prefix  string // of every key
	Timing  store.Timing
	// Within is how long any call may take before Redis counts as away.
	Timeout time.Duration
	Log     *slog.Logger
	// Notice is told when Redis stops answering and when it answers again. It may be nil.
	OnHealth func(up bool)
}

// Store implements store.Store.
type Store struct {
	timing store.Timing
	keys   keys
	line   *line
	log    *slog.Logger

	presence, judge, attempt string // in milliseconds, for scripts

	life   life
	seen   *sightings
	recent recent

	root     context.Context // ends with Close
	end      context.CancelFunc
	closing  sync.RWMutex // held for writing while the store is being closed
	closed   bool
	releases releases
	telling  sync.WaitGroup // of what was heard
}

var _ store.Store = (*Store)(nil)

// longest is how far apart a lease can tell its reservation from its end.
const longest = 100 * time.Minute

// connect makes the client. A connection may take a little longer once than it may while callers wait.
func connect(a Address) (redis rueidis.Client, err error) {
	for range 4 {
		var slow net.Error
		if redis, err = rueidis.NewClient(a.options()); err == nil || !errors.As(err, &slow) || !slow.Timeout() {
			break
		}
	}
	return redis, err
}

// Open connects to Redis, refuses one that cannot keep the promises, and begins to use it.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Timing.Presence+o.Timing.Attempt > longest {
		return nil, fmt.Errorf("scheduler.nodes.presence_ttl_ms and scheduler.dispatch.attempt_timeout_ms together must be %s or less with Redis", longest)
	}
	redis, err := connect(o.Address)
	if err != nil {
		return nil, unreachable(o.Address, err)
	}
	if o.OnHealth == nil {
		o.OnHealth = func(bool) {}
	}
	if err := check(ctx, redis, &o); err != nil {
		redis.Close()
		return nil, err
	}
	s := &Store{timing: o.Timing, keys: keys{prefix: o.Prefix}, log: o.Log}
	s.presence, s.judge, s.attempt = millis(o.Timing.Presence), millis(o.Timing.ReservedTTL), millis(o.Timing.Attempt)
	s.root, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.line = newLine(s.root, redis, o.Address.Kind == KindCluster, o.Timeout, o.OnHealth)
	s.recent.keep = o.Timing.Retention
	s.life.base, s.life.job = time.Now(), o.Timing.Job
	s.seen = newSightings(s)
	if _, err := s.young(ctx); err != nil {
		s.end()
		s.line.close()
		return nil, fmt.Errorf("cannot use Redis at %s: %w", o.Address, err)
	}
	s.telling.Go(func() { s.seen.run(s.root) })
	return s, nil
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Ping implements store.Store. It writes: a Redis that is full, or a replica, answers a ping and can do nothing.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.line.one(s.line.begin(ctx), s.line.redis.B().Set().Key(s.keys.ping()).Value("1").Px(time.Second).Build())
	if err == nil {
		s.line.health.wrote()
	}
	return err
}

// lastWords is how long Close lets what is on its way arrive.
const lastWords = 2 * time.Second

// Close implements store.Store. Releases that are on their way get a moment to arrive.
func (s *Store) Close() error {
	s.closing.Lock()
	s.closed = true
	s.closing.Unlock()
	t := time.AfterFunc(lastWords, s.end)
	defer t.Stop()
	s.seen.stop()
	s.releases.work.Wait()
	s.telling.Wait()
	s.end()
	s.line.close()
	return nil
}
