package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// watch looks who is present, and sees to those who are not any more.
func (b *Bus) watch(ctx context.Context) {
	for {
		all, err := b.store.Instances(ctx)
		if err == nil {
			b.note(all)
			b.forget(all)
			for i := range all {
				if one := &all[i]; !one.Present && (one.HasInbox || one.DeadLetters == 0) && one.ID != b.cfg.Instance {
					b.work.Go(func() { b.bury(ctx, one.ID) })
				}
			}
		}
		if !backoff.SleepJitter(ctx, b.cfg.TTL/3, 0.2) {
			return
		}
	}
}

// note shows what was seen.
func (b *Bus) note(all []store.Instance) {
	present := 0
	for _, one := range all {
		if one.Present {
			present++
		}
		if one.ID == b.cfg.Instance {
			b.metrics.InboxMessages.Set(float64(one.Inbox))
			b.metrics.InboxPending.Set(float64(one.Pending))
			b.metrics.DeadLetters.Set(float64(one.DeadLetters))
		}
	}
	b.metrics.Instances.Set(float64(present))
}

// estate is what this instance knows of what another that is gone has left.
type estate struct {
	busy     bool  // it is being settled; whoever does that has the rest to itself
	bereaved bool  // what OnGone says is done
	failed   tally // how often its letters could not be dealt with
}

// lockFor is how long an instance has to see to what another has left before a third may.
const lockFor = 10 * time.Second

// bury sees to everything an instance that is gone has left. Of several that notice, one does; what it does can be done
// twice.
func (b *Bus) bury(ctx context.Context, id core.InstanceID) {
	lock := store.LockParams{Name: "estate:" + string(id), Holder: string(b.cfg.Instance), TTL: lockFor}
	held, err := b.store.Lock(ctx, lock)
	if err != nil || !held.Held {
		return // another sees to it, or it is looked at again
	}
	e := b.begin(id)
	if e == nil {
		return // it is being done
	}
	defer b.done(e)
	holding, release := b.keepLock(ctx, lock)
	err = b.takeOver(holding, id, e)
	release()
	if err != nil {
		if ctx.Err() == nil {
			b.log.Warn("what an instance left could not be taken over; it is tried again", "instance", id, "error", err)
		}
		return
	}
	b.metrics.Takeovers.WithLabelValues("instance").Inc()
	_ = b.store.Unlock(ctx, lock) // it lapses
}

// keepLock renews a lock until the caller releases it, which it must. The context ends when somebody else has the lock, or it
// could not be renewed for its time.
func (b *Bus) keepLock(ctx context.Context, lock store.LockParams) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		defer cancel()
		for renewed := time.Now(); backoff.SleepJitter(ctx, lock.TTL/3, 0.1); {
			held, err := b.store.Lock(ctx, lock)
			switch {
			case err == nil && held.Held:
				renewed = time.Now()
			case err == nil || time.Since(renewed) >= lock.TTL*2/3:
				return
			}
		}
	})
	return ctx, func() {
		cancel()
		renewing.Wait()
	}
}

// takeOver does what has to be done when an instance is gone, and then settles its estate: its name is what it is found
// by, so that comes last.
func (b *Bus) takeOver(ctx context.Context, id core.InstanceID, e *estate) error {
	if !e.bereaved {
		b.log.Warn("an instance is gone; what it left is taken over", "instance", id)
		if err := guarded(func() error { return b.gone(ctx, id) }); err != nil {
			return err
		}
		e.bereaved = true
	}
	return b.settleEstate(ctx, id, e)
}

// begin takes an estate in hand; nil when it is in hand already.
func (b *Bus) begin(id core.InstanceID) *estate {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.estates[id]
	if e == nil {
		e = new(estate)
		b.estates[id] = e
	}
	if e.busy {
		return nil
	}
	e.busy = true
	return e
}

func (b *Bus) done(e *estate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.busy = false
}

// forget drops what is known of estates of which nothing is left, or whose instances are back.
func (b *Bus) forget(all []store.Instance) {
	left := make(map[core.InstanceID]bool)
	for i := range all {
		left[all[i].ID] = !all[i].Present
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.estates, func(id core.InstanceID, e *estate) bool { return !left[id] && !e.busy })
}

// settleEstate deals with the letters of an instance that is not present, and removes its inbox. A letter that fails does
// not keep the others waiting.
func (b *Bus) settleEstate(ctx context.Context, id core.InstanceID, e *estate) error {
	for {
		letters, err := b.store.FetchAbandoned(ctx, id, fetchAtOnce)
		if err != nil {
			return err
		}
		if len(letters) == 0 {
			_, err := b.store.RemoveInbox(ctx, id)
			return err
		}
		var failure error
		for i := range letters {
			if err := b.inherit(ctx, id, e, &letters[i]); err != nil {
				failure = err
				if storeAway(err) {
					break
				}
			}
		}
		if failure != nil {
			return failure
		}
	}
}

// inherit deals with one letter that an instance has left behind, and takes it out of the inbox.
func (b *Bus) inherit(ctx context.Context, id core.InstanceID, e *estate, raw *store.InboxMessage) error {
	l := new(Message)
	err := json.Unmarshal(raw.Body, l)
	h, known := b.kinds[l.Kind]
	switch {
	case err != nil || !known:
		return b.condemn(ctx, id, raw, verdict{reason: reasonUnread, tries: raw.Deliveries + 1})
	case l.stale(raw.Age):
		b.count(l.Kind, "stale")
	case h.TakeOver == nil:
		b.count(l.Kind, "discarded")
	default:
		err := guarded(func() error { return h.TakeOver(ctx, l, raw.Deliveries == 0) })
		if err != nil {
			return b.disowned(ctx, id, e, raw, fmt.Errorf("a letter of kind %s: %w", l.Kind, err))
		}
		b.count(l.Kind, "inherited")
	}
	return b.store.Acknowledge(ctx, id, raw.ID)
}

// disowned judges a letter of an estate that could not be dealt with: it is dead, or the error is what keeps it.
func (b *Bus) disowned(ctx context.Context, id core.InstanceID, e *estate, raw *store.InboxMessage, cause error) error {
	v := verdict{reason: reasonUnread, tries: raw.Deliveries + 1}
	switch {
	case errors.Is(cause, errUnread):
	case storeAway(cause):
		return cause
	default:
		tries := e.failed.note(raw.ID)
		if tries < mostDeliveries {
			return cause
		}
		v = verdict{reason: reasonFailed, tries: raw.Deliveries + tries, cause: cause}
	}
	return b.condemn(ctx, id, raw, v)
}
