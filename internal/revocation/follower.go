package revocation

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

const (
	// pollInterval is how often the version of the list is read, in case ReadSoon was not called for a change. With the time of a read and
	// of closing connections it must stay below the second within which a revocation takes effect on every instance.
	pollInterval = 900 * time.Millisecond
	// partialAbove is the number of entries above which a change is read alone at first: a tenant may end many sessions.
	partialAbove = 1000
	// completeInterval is after what time the whole of such a list is read, to find what the store has lost.
	completeInterval = 5 * time.Second
)

const (
	// tokenLifetime is after what time no token can be alive that was minted before a revocation.
	tokenLifetime = auth.MaxTokenTTL + 10*time.Minute
	// keepLifted is how long a lifted entry is kept. An instance that was cut off from the store for longer may still have the entry as
	// it was before, and would restore it.
	keepLifted = 7 * 24 * time.Hour
	// keepDrain is for how long it is remembered that a node was drained. A node that is still registered then stays drained, but is no
	// longer if the store loses it.
	keepDrain = 90 * 24 * time.Hour
	// loginMargin is for how long after its expiry a login is kept that was ended.
	loginMargin = 10 * time.Minute
)

// Store is the part of the store that this package uses.
type Store interface {
	store.Revocations
	Drain(ctx context.Context, p store.DrainParams) (*core.Node, error)
}

// Follower has this instance's copy of the revocations, which follows the store. It is used by many goroutines. A nil follower has an
// empty list, which was read.
type Follower struct {
	store    Store
	log      *slog.Logger
	list     list
	latest   atomic.Int64 // the time of the latest entry of the list in microseconds; 0: it is empty
	ready    atomic.Bool
	onChange []func()
	soon     chan struct{} // holds one element if the store's list is to be read at once
	reading  sync.Mutex    // held by the one that reads the store's list, and guards the next field
	unsure   []string      // nodes whose drains the store had lost: their records may not agree with the list

	mu         sync.Mutex // serialises changes of the list, and guards the fields below
	version    string     // of the list that was read last
	written    bool       // this instance has written to the store since: the version of that is not known, and the store may have lost it
	last       time.Time  // when the latest entry was added, on the store's clock
	incomplete bool       // a part of the list was read since the whole was
	completed  time.Time  // when the whole was read, on this instance's clock
}

var _ auth.Revocations = (*Follower)(nil)

// NewFollower makes a follower with an empty list. Read or Run reads it.
func NewFollower(st Store, log *slog.Logger) *Follower {
	return &Follower{store: st, log: log, soon: make(chan struct{}, 1), list: list{sessions: make(map[core.TenantID]int)}}
}

// OnChange makes fn be called after every change of the revocations; drains are none. It must be called before Run. fn may be called by
// several goroutines at once, and must not call the follower's methods that change it.
func (f *Follower) OnChange(fn func()) { f.onChange = append(f.onChange, fn) }

// Ready reports whether the list was read.
func (f *Follower) Ready() bool { return f == nil || f.ready.Load() }

func (f *Follower) current() *list {
	if f == nil {
		return nil
	}
	return &f.list
}

// Revoked implements auth.Revocations.
func (f *Follower) Revoked(p *auth.Principal) bool { return f.current().revoked(p) }

// SessionRevoked returns the entry by which a session is revoked that started at a time, on an instance that knew the entries up to a time;
// nil when there is none.
func (f *Follower) SessionRevoked(key core.SessionKey, started, known time.Time) *store.Revocation {
	return f.current().session(key, started, known)
}

// NodeRevoked reports whether a node is revoked: its name, or the key or the tenant with which it registered.
func (f *Follower) NodeRevoked(n *core.Node) bool { return f.current().node(n) }

// NodeNameRevoked reports whether the name of a node is revoked.
func (f *Follower) NodeNameRevoked(id core.NodeID) bool {
	return f.current().find(store.RevokedNode, "", string(id)) != nil
}

// NodeDrained reports whether a node was drained and not resumed since.
func (f *Follower) NodeDrained(id core.NodeID) bool {
	return f.current().find(store.DrainedNode, "", string(id)) != nil
}

// RecordDrain records that a node was drained, or resumed.
func (f *Follower) RecordDrain(ctx context.Context, id core.NodeID, drained bool) error {
	node := store.RevocationTarget{Kind: store.DrainedNode, Name: string(id)}
	if !drained {
		return f.Lift(ctx, node, "")
	}
	_, err := f.Add(ctx, store.Revocation{RevocationTarget: node})
	return err
}

// Latest returns the time of the latest entry that this instance knows, on the store's clock.
func (f *Follower) Latest() time.Time {
	if f == nil || f.latest.Load() == 0 {
		return time.Time{}
	}
	return time.UnixMicro(f.latest.Load())
}

// Entries returns the entries that are in force, in the order of their targets.
func (f *Follower) Entries() []store.Revocation { return f.current().inForce() }

// Find returns the entry in force for a target.
func (f *Follower) Find(t store.RevocationTarget) (store.Revocation, bool) {
	if r := f.current().find(t.Kind, t.Tenant, t.Name); r != nil {
		return *r, true
	}
	return store.Revocation{}, false
}

// CountLogins returns how many logins of a key were ended that the list has.
func (f *Follower) CountLogins(key string) (n int) {
	for r := range f.current().all() {
		if r.Kind == store.RevokedLogin && r.By == key {
			n++
		}
	}
	return n
}

// CountSessions returns how many revoked sessions of a tenant the list has.
func (f *Follower) CountSessions(tenant core.TenantID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list.sessions[tenant]
}

// Add adds a revocation to the store and to this instance's list, and returns when the change has taken effect here. Until, of a login, is
// when that would have expired. A zero Before means everything until now. It never weakens an entry that is in force: of two times the
// later one stays, and only Lift lifts. After an error nothing has changed here; if the store has the entry nevertheless, it takes effect
// with the next read.
func (f *Follower) Add(ctx context.Context, r store.Revocation) (store.Revocation, error) {
	r.Now = r.Before.IsZero() && r.Kind != store.RevokedNode
	if old, ok := f.Find(r.RevocationTarget); ok {
		if old.Before.After(r.Before) {
			r.Before = old.Before
		}
		if !r.Now {
			r.Unknown = old.Since()
		}
	}
	keep := time.Duration(0) // for ever
	switch r.Kind {
	case store.RevokedSession, store.RevokedKID:
		keep = tokenLifetime
	case store.DrainedNode:
		keep = keepDrain
	case store.RevokedLogin:
		keep = auth.MaxLoginTTL
		if !r.Until.IsZero() { // it expires then anyway; the clocks of the store and of other instances may differ from this one
			keep = min(keep, time.Until(r.Until)+loginMargin)
		}
	}
	return f.add(ctx, r, keep)
}

// Lift lifts the revocation of a target. The logins that it ended stay ended: another entry keeps that until the last one has expired.
func (f *Follower) Lift(ctx context.Context, t store.RevocationTarget, by string) error {
	if t.Kind == store.RevokedKey || t.Kind == store.RevokedTenant {
		ended := store.Revocation{RevocationTarget: loginsOf(t.Kind, t.Name), By: by, Reason: "revoked before"}
		if lifted, found := f.Find(t); found {
			ended.Before = lifted.Before
		}
		if _, err := f.Add(ctx, ended); err != nil {
			return err
		}
	}
	_, err := f.add(ctx, store.Revocation{RevocationTarget: t, Lifted: true, By: by}, keepLifted)
	return err
}

// add adds a new entry, which is kept for a time; 0: for ever.
func (f *Follower) add(ctx context.Context, r store.Revocation, keep time.Duration) (store.Revocation, error) {
	added, err := f.store.PutRevocations(ctx, store.PutRevocationsParams{Entries: []store.Revocation{r}, Keep: keep, After: f.Latest()})
	f.recordWrite()
	if err != nil || len(added) == 0 {
		return r, err
	}
	f.apply(added, added[0].At)
	return added[0], nil
}

// recordWrite records that this instance has written to the store.
func (f *Follower) recordWrite() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written = true
}

// apply merges entries into the list, and calls the subscribers if it has changed.
func (f *Follower) apply(entries []store.Revocation, now time.Time) {
	f.mu.Lock()
	changed := f.list.merge(entries, now)
	f.latest.Store(max(0, f.list.latest.UnixMicro())) // the zero time, of an empty list, is negative
	f.mu.Unlock()
	if changed {
		for _, fn := range f.onChange {
			fn()
		}
	}
}

// Run follows the store until the context ends. While the store does not answer, the last list stays in force.
func (f *Follower) Run(ctx context.Context) {
	for failing := false; ; {
		err := f.Read(ctx)
		if ctx.Err() != nil {
			return
		}
		if failed := err != nil; failed != failing {
			failing = failed
			if failed {
				f.log.Warn("the revocations could not be read: the last list stays in force", "read_before", f.Ready(), "error", err)
			} else {
				f.log.Info("the revocations are read again")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-f.soon:
		case <-time.After(run.Jitter(pollInterval, 0.1)):
		}
	}
}

// ReadSoon makes Run read the store's list at once. It does not block.
func (f *Follower) ReadSoon() {
	select {
	case f.soon <- struct{}{}:
	default:
	}
}

// Read reads the list if it has changed since it was last read, and restores what the store has lost.
func (f *Follower) Read(ctx context.Context) error {
	f.reading.Lock()
	defer f.reading.Unlock()
	after, known := f.nextRead()
	page, err := f.readFrom(ctx, after, known)
	if err == nil && known != nil && page.Version == *known {
		return nil
	}
	if err == nil && !after.IsZero() && page.Count != f.list.len() { // something is missing, here or there
		after = time.Time{}
		page, err = f.readFrom(ctx, after, nil)
	}
	if err == nil {
		err = f.restoreDrains(ctx)
	}
	if err != nil {
		if known == nil {
			f.recordWrite() // it is to be read again, whatever the version is
		}
		return err
	}
	f.recordRead(page, after.IsZero())
	return nil
}

// readFrom reads the entries after a time, unless the version of the list is the known one. If it reads all, it puts back what this
// instance had before and the store has lost.
func (f *Follower) readFrom(ctx context.Context, after time.Time, known *string) (store.RevocationPage, error) {
	before := f.Latest() // all until then was in the store
	page, err := f.store.ReadRevocations(ctx, after, known)
	if err != nil || known != nil && page.Version == *known {
		return page, err
	}
	f.apply(page.Entries, page.Now)
	if !after.IsZero() {
		return page, nil
	}
	lost := f.list.missing(page.Entries, before, page.Now)
	if len(lost) == 0 {
		return page, nil
	}
	f.log.Warn("the store has lost revocations: they are put back", "count", len(lost))
	f.recordWrite()
	for i := range lost {
		if lost[i].Kind == store.DrainedNode {
			f.unsure = append(f.unsure, lost[i].Name)
		}
	}
	_, err = f.store.PutRevocations(ctx, store.PutRevocationsParams{Entries: lost})
	return page, err
}

// restoreDrains makes the records of nodes agree with the list after the store has lost entries of theirs: with those it has lost the
// change of the record. A node without a record is drained when it registers. The list is read before each record is written, and again at
// the end: an operator may drain or resume a node meanwhile.
func (f *Follower) restoreDrains(ctx context.Context) error {
	written := make(map[string]bool)
	for changed := len(f.unsure) > 0; changed; {
		page, err := f.store.ReadRevocations(ctx, time.Time{}, nil)
		if err != nil {
			return err
		}
		f.apply(page.Entries, page.Now)
		changed = false
		for _, name := range f.unsure {
			drained := f.NodeDrained(core.NodeID(name))
			if before, ok := written[name]; ok && before == drained {
				continue
			}
			_, err := f.store.Drain(ctx, store.DrainParams{Node: core.NodeID(name), Drained: drained})
			if err != nil && !errors.Is(err, store.ErrNoNode) {
				return err
			}
			written[name], changed = drained, true
		}
	}
	f.unsure = nil
	return nil
}

// nextRead decides what is to be read: the entries after a time, or with the zero time all, if the version is another than the known one.
// Nil: in any case.
func (f *Follower) nextRead() (after time.Time, known *string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	due, written := time.Since(f.completed) >= completeInterval, f.written
	f.written = false
	if !f.ready.Load() {
		return time.Time{}, nil
	}
	if inAnyCase := written || f.incomplete && due; !inAnyCase {
		version := f.version
		known = &version
	}
	if f.list.len() > partialAbove && !due {
		after = f.last
	}
	return after, known
}

// recordRead records what was read. Changes that were made meanwhile have another version, and are read next.
func (f *Follower) recordRead(page store.RevocationPage, complete bool) {
	f.mu.Lock()
	f.version, f.incomplete = page.Version, !complete
	if complete {
		f.completed = time.Now()
	}
	for i := range page.Entries {
		if at := page.Entries[i].At; at.After(f.last) {
			f.last = at
		}
	}
	f.mu.Unlock()
	f.ready.Store(true)
}

// Any reports whether the list has revocations.
func (f *Follower) Any() bool { return f.current().any() }
