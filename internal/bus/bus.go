package bus

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// Config is how an instance behaves among the others.
type Config struct {
	Instance core.InstanceID // this life of this process
	TTL      time.Duration   // how long it is present without renewing that
	Block    time.Duration   // how long one read waits for letters
	Keep     time.Duration   // how long dead letters are kept
	// About is asked at every renewal what the others should know of the instance.
	About func() About
}

// About is what an instance says of itself.
type About struct {
	Name     string `json:"name"` // as configured, the same in every life
	URL      string `json:"url"`  // where others reach it
	Version  string `json:"version"`
	Started  int64  `json:"started_ms"`
	Draining bool   `json:"draining,omitempty"`
	Nodes    int    `json:"nodes"`
	Sessions int    `json:"sessions"`
	Jobs     int    `json:"jobs"`
}

// Store is what a bus needs of the store.
type Store interface {
	store.Instances
	store.Inboxes
	store.AbandonedInboxes
	Lock(ctx context.Context, p store.LockParams) (store.Lock, error)
	Unlock(ctx context.Context, p store.LockParams) error
}

// Handling is what is done with a kind of letter.
type Handler struct {
	// Do deals with a letter. An error has it tried again, and again, and then put among the dead.
	Handle func(ctx context.Context, l *Message) error
	// Beside says that it takes time: other letters do not wait for it, and may overtake it.
	Async bool
	// Inherit deals with a letter that an instance has left behind; never says that the instance never fetched it. Nil:
	// nobody needs it.
	TakeOver func(ctx context.Context, l *Message, never bool) error
}

// Bus is an instance among others. Make one with New, tell it with On what to do with letters, and let it Run.
type Bus struct {
	cfg     Config
	store   Store
	metrics *telemetry.Metrics
	log     *slog.Logger
	kinds   map[Kind]Handler
	gone    func(ctx context.Context, id core.InstanceID) error

	sent    atomic.Uint64
	renewed atomic.Pointer[time.Time] // when the presence that stands was asked for; nil: there is none
	seen    recent
	excused tally // how often letters failed through no fault of theirs

	mu      sync.Mutex
	estates map[core.InstanceID]*estate // of those that are gone and not buried

	work  sync.WaitGroup
	slots chan struct{} // bounds what is done beside the reader
}

// beside is how many letters are dealt with beside the reader at once.
const beside = 64

// New makes a bus.
func New(cfg Config, st Store, m *telemetry.Metrics, log *slog.Logger) *Bus {
	return &Bus{
		cfg: cfg, store: st, metrics: m, log: log, kinds: make(map[Kind]Handler), seen: newRecent(),
		estates: make(map[core.InstanceID]*estate), slots: make(chan struct{}, beside),
		gone: func(context.Context, core.InstanceID) error { return nil },
	}
}

// On says what is done with a kind of letter. It is called before Run.
func (b *Bus) On(kind Kind, h Handler) { b.kinds[kind] = h }

// OnGone says what is done when an instance is gone, before what it has left is removed. One instance does it, once; if it
// fails, or dies over it, it is done again. The context ends with the lock under which it is done. It is called before Run.
func (b *Bus) OnDead(fn func(ctx context.Context, id core.InstanceID) error) { b.gone = fn }

// Instance is this one.
func (b *Bus) Instance() core.InstanceID { return b.cfg.Instance }

// Fence is until when this instance may grant: it has said so lately enough that nobody can take it for gone before.
func (b *Bus) Fence() time.Time {
	at := b.renewed.Load()
	if at == nil {
		return time.Time{}
	}
	return at.Add(b.cfg.TTL * 2 / 3)
}

// Announce says that the instance is present, and what there is to know of it. Before the first time nobody can reach it,
// and it grants nothing. Run repeats it in time; whoever has news that should not wait for that calls it too.
func (b *Bus) Announce(ctx context.Context) error {
	about, err := json.Marshal(b.cfg.About())
	if err != nil {
		return err
	}
	now := time.Now() // before the store is asked: what it grants from then on lasts longer than we believe
	if err := b.store.Announce(ctx, store.AnnounceParams{ID: b.cfg.Instance, Body: about, TTL: b.cfg.TTL}); err != nil {
		return err
	}
	b.renewed.Store(&now)
	return nil
}

// Run renews the presence, reads the inbox and sees to those who are gone, until the context ends. Then it waits for
// what is being done.
func (b *Bus) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { b.renew(ctx) })
	loops.Go(func() { b.read(ctx) })
	loops.Go(func() { b.retry(ctx) })
	loops.Go(func() { b.watch(ctx) })
	loops.Wait()
	b.work.Wait()
}

// renew keeps the instance present, at moments of its own.
func (b *Bus) renew(ctx context.Context) {
	for backoff.SleepJitter(ctx, b.cfg.TTL/3, 0.1) {
		if err := b.Announce(ctx); err != nil && ctx.Err() == nil {
			b.log.Warn("the presence of this instance could not be renewed", "error", err, "grants_until", b.Fence().UTC())
		}
	}
}

// Leave says that the instance is gone. If it leaves nothing to be taken over it also removes its name; else the others
// find it, as if it had died. It is called after Run.
func (b *Bus) Leave(ctx context.Context, clean bool) error {
	if err := b.store.Withdraw(ctx, b.cfg.Instance); err != nil || !clean {
		return err
	}
	return b.settleEstate(ctx, b.cfg.Instance, new(estate))
}

// Age is how long ago the presence was renewed.
func (b *Bus) PresenceAge() time.Duration {
	if at := b.renewed.Load(); at != nil {
		return time.Since(*at)
	}
	return 0
}
