package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// Config is the configuration of an instance among the others.
type Config struct {
	Instance core.InstanceID // this incarnation of this process
	TTL      time.Duration   // of its presence, if it does not renew it
	Block    time.Duration   // how long one read of the inbox waits for messages
	Keep     time.Duration   // how long dead letters are kept
	// About is called at every renewal of the presence.
	About func() About
	// Events records dead letters; nil: they are not recorded.
	Events *journal.Events
}

// About is what an instance publishes about itself.
type About struct {
	Name     string `json:"name"` // as configured, the same for every incarnation
	URL      string `json:"url"`  // where others reach it
	Version  string `json:"version"`
	Started  int64  `json:"started_ms"`
	Draining bool   `json:"draining,omitempty"`
	Nodes    int    `json:"nodes"`
	Sessions int    `json:"sessions"`
	Jobs     int    `json:"jobs"`
	// Takeovers is from how many dead instances it has taken over.
	Takeovers int `json:"takeovers,omitempty"`
	// KeysDigest identifies the credentials that the instance has in force.
	KeysDigest string `json:"keys_digest,omitempty"`
}

// Store is the part of the store that this package uses.
type Store interface {
	store.Instances
	store.Inboxes
	store.AbandonedInboxes
	Lock(ctx context.Context, p store.LockParams) (store.Lock, error)
	Unlock(ctx context.Context, p store.LockParams) error
}

// Bus is this instance among the others: its presence, and the way to send messages. A Receiver handles those that it gets.
type Bus struct {
	cfg     Config
	store   Store
	metrics *telemetry.Metrics
	log     *slog.Logger

	sent    atomic.Uint64
	renewed atomic.Pointer[time.Time] // when the current presence was requested; nil: there is none
	fetched atomic.Pointer[time.Time] // when messages were last fetched that may not be acknowledged; nil: never
	dead    atomic.Int64              // dead letters of all instances
}

// New makes a bus.
func New(cfg Config, st Store, m *telemetry.Metrics, log *slog.Logger) *Bus {
	return &Bus{cfg: cfg, store: st, metrics: m, log: log}
}

// Instance is this incarnation.
func (b *Bus) Instance() core.InstanceID { return b.cfg.Instance }

// Fence is until when this instance may grant slots: its presence is so recent that no other can declare it dead before.
func (b *Bus) Fence() time.Time {
	at := b.renewed.Load()
	if at == nil {
		return time.Time{}
	}
	return at.Add(b.cfg.TTL * 2 / 3)
}

// Announce renews the presence of this instance and publishes what it is doing. Before the first call no other can reach it, and
// it grants nothing. Receiver.Run repeats it in time; a caller whose news should not wait for that calls it too.
func (b *Bus) Announce(ctx context.Context) error {
	about, err := json.Marshal(b.cfg.About())
	if err != nil {
		return err
	}
	now := time.Now() // before the store is called: the presence lasts longer than Fence assumes
	if err := b.store.Announce(ctx, store.AnnounceParams{ID: b.cfg.Instance, Body: about, TTL: b.cfg.TTL}); err != nil {
		return err
	}
	if before := b.renewed.Swap(&now); before != nil && now.Sub(*before) >= b.cfg.TTL {
		b.recordFetch() // another instance may have fetched messages while this one was absent
	}
	return nil
}

// recordFetch records that messages may be pending from now on.
func (b *Bus) recordFetch() {
	now := time.Now()
	b.fetched.Store(&now)
}

// presenceRetry is how soon a renewal of the presence that failed is repeated: when the fence has passed, the instance grants nothing until
// it succeeds.
const presenceRetry = 100 * time.Millisecond

// renewPresence renews the presence until the context ends.
func (b *Bus) renewPresence(ctx context.Context) {
	interval := b.cfg.TTL / 3
	pause := interval
	var logged time.Time
	for run.SleepJitter(ctx, pause, 0.1) {
		err := b.Announce(ctx)
		if err == nil || ctx.Err() != nil {
			pause = interval
			continue
		}
		pause = min(presenceRetry, interval)
		if time.Since(logged) >= interval {
			b.log.Warn("the presence of this instance could not be renewed", "error", err, "grants_until", b.Fence().UTC())
			logged = time.Now()
		}
	}
}

// PresenceAge is how long ago the presence was renewed.
func (b *Bus) PresenceAge() time.Duration {
	if at := b.renewed.Load(); at != nil {
		return time.Since(*at)
	}
	return 0
}

// Peer is an instance, as this one sees it.
type Peer struct {
	store.Instance
	About
	This bool // it is this one
}

// Peers lists the instances that are present, and those that have left something behind, by name.
func (b *Bus) Peers(ctx context.Context) ([]Peer, error) {
	return b.peers(b.store.Instances(ctx, store.InstancesParams{Inboxes: true}))
}

// Presences is Peers without what it says of inboxes and dead letters, and costs less.
func (b *Bus) Presences(ctx context.Context) ([]Peer, error) {
	return b.peers(b.store.Instances(ctx, store.InstancesParams{}))
}

func (b *Bus) peers(all []store.Instance, err error) ([]Peer, error) {
	if err != nil {
		return nil, err
	}
	peers := make([]Peer, len(all))
	for i, instance := range all {
		peers[i] = Peer{Instance: instance, This: instance.ID == b.cfg.Instance}
		if instance.Present {
			_ = json.Unmarshal(instance.Body, &peers[i].About) // another version may publish other fields
		}
		if peers[i].Name == "" { // an absent instance publishes nothing
			peers[i].Name = ConfiguredName(instance.ID)
		}
	}
	slices.SortFunc(peers, func(a, b Peer) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return peers, nil
}
