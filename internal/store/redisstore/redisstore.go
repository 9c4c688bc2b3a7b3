// Package redisstore is the store that any number of instances share. It keeps the state in Redis (standalone, Sentinel or Cluster),
// keeps the same promises as memstore and passes the same suite.
//
// All keys of a node are in one slot, and so are all keys of a job. So every operation is one script or one command, atomic, and none
// needs two slots. What has to be known across slots (which nodes there are, which have changed) is written to keys of its own
// afterwards; if that write is lost, the next heartbeat or the next comparison finds the difference. docs/redis.md lists the keys and
// the scripts.
//
// Locks: none is held during a call to Redis.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Options configures a store.
type Options struct {
	Address Address
	Prefix  string // of every key
	Timing  store.Timing
	// Timeout is the maximum duration of a call. The limits of a connection follow from it.
	Timeout time.Duration
	Log     *slog.Logger
	// OnHealth is called when Redis becomes unavailable (false) and when it is available again (true). It may be nil.
	OnHealth func(up bool)
	// OnError is called with the class of every call that failed. It must not block, and may be nil.
	OnError func(store.ErrorClass)
	// OnCall is called with the duration of every call that was answered. It must not block, and may be nil.
	OnCall func(took time.Duration)
	// OnEmptied is called when Redis was emptied: nothing that was stored before is known any more. It must not block, and may be nil.
	OnEmptied func()
}

// Store implements store.Store.
type Store struct {
	timing store.Timing
	keys   keys
	kind   Kind
	client *client
	log    *slog.Logger

	presenceMS, reservedTTLMS, attemptMS string // in milliseconds, as arguments of scripts
	queueScripts                         *queueScripts

	incarnation incarnation
	onEmptied   func()
	lastSeen    *lastSeenReporter
	recent      recentJobs
	memberSets  memberSets

	inboxRenewed sync.Map // of each instance that was announced here, when its inbox was renewed

	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	closing    run.RWMutex // guards closed: held for reading while a release is queued
	closed     bool
	releases   releaseQueue
	background sync.WaitGroup // the last-seen reporter
}

var _ store.Store = (*Store)(nil)

// maxLeaseSpan bounds the time between the reservation and the expiry of a lease that a score can hold.
const maxLeaseSpan = 100 * time.Minute

// openAttempts is how often Open asks a Redis that does not answer in time. Its first answers may take longer than later ones, for
// which callers wait.
const openAttempts = 4

// After how long a silence a connection is pinged. The one for people may be found dead later, and is nearly always silent.
const (
	pingAfter       = time.Second
	pingPeopleAfter = 10 * time.Second
)

// connect makes a Redis client.
func connect(o *Options, reads *blockingReads, pingAfter time.Duration) (redis rueidis.Client, err error) {
	option := o.Address.options(connTimeoutsFor(o.Timeout))
	option.DialCtxFn, option.Dialer.KeepAlive = reads.dial, pingAfter
	for range openAttempts {
		var failure net.Error
		if redis, err = rueidis.NewClient(option); err == nil || !errors.As(err, &failure) || !failure.Timeout() {
			break
		}
	}
	return redis, err
}

// Open connects to Redis and opens a store. It refuses a Redis that cannot keep the promises of a store.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Timing.Presence+o.Timing.Attempt > maxLeaseSpan {
		return nil, fmt.Errorf("scheduler.nodes.presence_ttl_ms and scheduler.dispatch.attempt_timeout_ms together must be %s or less "+
			"with Redis", maxLeaseSpan)
	}
	reads := newBlockingReads()
	redis, err := connect(&o, reads, pingAfter)
	if err != nil {
		return nil, connectError(o.Address, err)
	}
	if o.OnHealth == nil {
		o.OnHealth = func(bool) {}
	}
	if o.OnError == nil {
		o.OnError = func(store.ErrorClass) {}
	}
	if o.OnCall == nil {
		o.OnCall = func(time.Duration) {}
	}
	if o.OnEmptied == nil {
		o.OnEmptied = func() {}
	}
	if err := check(ctx, redis, &o); err != nil {
		redis.Close()
		return nil, err
	}
	people, err := connect(&o, newBlockingReads(), pingPeopleAfter) // none of their reads blocks
	if err != nil {
		redis.Close()
		return nil, connectError(o.Address, err)
	}
	s := &Store{
		timing: o.Timing, keys: keys{prefix: o.Prefix}, kind: o.Address.Kind, log: o.Log, onEmptied: o.OnEmptied,
		queueScripts: scriptsOfQueues,
		recent:       recentJobs{keep: o.Timing.Retention, mu: run.NewMutex("redis_recent_jobs")},
		memberSets:   memberSets{mu: run.NewMutex("redis_members")},
		closing:      run.NewRWMutex("redis_closing"),
		releases:     releaseQueue{mu: run.NewMutex("redis_releases")},
	}
	s.presenceMS, s.reservedTTLMS, s.attemptMS = millis(o.Timing.Presence), millis(o.Timing.ReservedTTL), millis(o.Timing.Attempt)
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.client = newClient(s.ctx, redis, o.Address.Kind == KindCluster, o.Timeout, o.OnHealth, o.OnError)
	s.client.onCall, s.client.reads, s.client.log = o.OnCall, reads, o.Log
	s.client.addPeople(s.ctx, people)
	s.incarnation.base, s.incarnation.maxJob = time.Now(), o.Timing.Job
	s.lastSeen = newLastSeenReporter(s)
	for range openAttempts {
		if _, err = s.checkIncarnation(ctx); !errors.Is(err, errTimeout) && !errors.Is(err, errLate) {
			break
		}
	}
	if err != nil {
		s.cancel()
		s.client.close()
		return nil, fmt.Errorf("cannot use Redis at %s: %w", o.Address, err)
	}
	s.background.Go(func() { s.lastSeen.run(s.ctx) })
	return s, nil
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Shared implements store.Store.
func (s *Store) Shared() bool { return true }

// Ping implements store.Store. It writes, because a Redis that is full, or a replica, answers PING and accepts no writes.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.client.command(ctx, s.client.redis.B().Set().Key(s.keys.ping()).Value("1").Px(time.Second).Build())
	if err == nil {
		s.client.health.wrote()
	}
	return err
}

// closeTimeout is how long Close waits for writes in flight.
const closeTimeout = 2 * time.Second

// Close implements store.Store. It waits a moment for queued releases.
func (s *Store) Close() error {
	s.closing.Lock()
	s.closed = true
	s.closing.Unlock()
	timeout := time.AfterFunc(closeTimeout, s.cancel)
	defer timeout.Stop()
	s.lastSeen.stop()
	s.releases.work.Wait()
	s.background.Wait()
	s.cancel()
	s.client.close()
	return nil
}

// incarnation is what this instance knows of the incarnation of the store. A store that was emptied starts a new one: jobs that it
// does not know may still be running.
type incarnation struct {
	id     atomic.Pointer[string]
	began  atomic.Int64 // by this process's clock, in ms since base
	base   time.Time
	maxJob time.Duration
}

// isYoung reports whether jobs of an earlier incarnation may still be running, as far as the last check knows.
func (i *incarnation) isYoung() bool {
	return time.Since(i.base).Milliseconds()-i.began.Load() < i.maxJob.Milliseconds()
}

// confirmIncarnation is checkIncarnation for callers that need not know how old the incarnation is: one command while it is the known one.
func (s *Store) confirmIncarnation(ctx context.Context) error {
	m, err := s.client.command(ctx, s.client.redis.B().Hget().Key(s.keys.incarnation()).Field("id").Build())
	if isDown(err) || isInconclusive(err) {
		return err
	}
	known := s.incarnation.id.Load()
	if id, _ := m.ToString(); err == nil && known != nil && id == *known {
		return nil
	}
	_, err = s.checkIncarnation(ctx)
	return err
}

// checkIncarnation reads the incarnation of the store, starts one if the store is empty, and reports whether jobs of an earlier one
// may still be running.
func (s *Store) checkIncarnation(ctx context.Context) (bool, error) {
	now, r, err := s.client.runScript(ctx, &scriptIncarnation, []string{s.keys.incarnation()}, uuid.NewString())
	if err != nil {
		return false, err
	}
	id, age := r.text(0), now-r.int(1)
	i := &s.incarnation
	i.began.Store(time.Since(i.base).Milliseconds() - age)
	if old := i.id.Swap(&id); old != nil && *old != id {
		s.log.Warn("the store was emptied: this is a new incarnation; nodes register again and running jobs are adopted")
		s.onEmptied()
	}
	return i.isYoung(), nil
}
