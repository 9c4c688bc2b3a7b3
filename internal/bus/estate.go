package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/pause"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// watch looks who is present, and sees to those who are not any more.
func (b *Bus) watch(ctx context.Context) {
	for {
		all, err := b.store.Instances(ctx)
		if err == nil {
			b.note(all)
			for i := range all {
				if one := &all[i]; !one.Present && (one.Open || one.Dead == 0) && one.ID != b.cfg.Instance {
					b.work.Go(func() { b.bury(ctx, one.ID) })
				}
			}
		}
		if !pause.About(ctx, b.cfg.TTL/3, 0.2) {
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
			b.metrics.InboxLetters.Set(float64(one.Inbox))
			b.metrics.InboxUnsettled.Set(float64(one.Fetched))
			b.metrics.DeadLetters.Set(float64(one.Dead))
		}
	}
	b.metrics.Instances.Set(float64(present))
}

// lockFor is how long an instance has to see to what another has left before a third may.
const lockFor = 10 * time.Second

// bury sees to everything an instance that is gone has left. Of several that notice, one does; what it does can be done
// twice.
func (b *Bus) bury(ctx context.Context, id core.InstanceID) {
	lock := store.LockParams{Name: "estate:" + string(id), Holder: string(b.cfg.Instance), TTL: lockFor}
	held, err := b.store.Lock(ctx, lock)
	if err != nil || !held.Held || !b.busyWith(id) {
		return // another sees to it, or it is looked at again
	}
	defer b.done(id)
	b.log.Warn("an instance is gone; what it left is taken over", "instance", id)
	err = guarded(func() error { return b.gone(ctx, id) })
	if err == nil { // its name is what it is found by, so that comes last
		err = b.settleEstate(ctx, id)
	}
	if err != nil {
		if ctx.Err() == nil {
			b.log.Warn("what an instance left could not be taken over; it is tried again", "instance", id, "error", err)
		}
		return
	}
	b.metrics.Takeovers.WithLabelValues("instance").Inc()
	_ = b.store.Unlock(ctx, lock) // it lapses
}

// busyWith notes that this instance sees to what another has left, and reports false when it does so already.
func (b *Bus) busyWith(id core.InstanceID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.burying[id] {
		return false
	}
	b.burying[id] = true
	return true
}

func (b *Bus) done(id core.InstanceID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.burying, id)
}

// settleEstate deals with the letters of an instance that is not present, and removes its inbox.
func (b *Bus) settleEstate(ctx context.Context, id core.InstanceID) error {
	for {
		letters, err := b.store.Estate(ctx, id, fetchAtOnce)
		if err != nil {
			return err
		}
		if len(letters) == 0 {
			_, err := b.store.Bury(ctx, id)
			return err
		}
		ids := make([]string, 0, len(letters))
		for i := range letters {
			if err := b.inherit(ctx, id, &letters[i]); err != nil {
				return err
			}
			ids = append(ids, letters[i].ID)
		}
		if err := b.store.Settle(ctx, id, ids...); err != nil {
			return err
		}
	}
}

// inherit deals with one letter that an instance has left behind.
func (b *Bus) inherit(ctx context.Context, id core.InstanceID, raw *store.Letter) error {
	l := new(Letter)
	err := json.Unmarshal(raw.Body, l)
	h, known := b.kinds[l.Kind]
	switch {
	case err != nil || !known:
		return b.store.Condemn(ctx, store.CondemnParams{Inbox: id, Letter: *raw, Reason: reasonUnread, Keep: b.cfg.Keep})
	case l.stale(raw.Age):
		b.count(l.Kind, "stale")
	case h.Inherit == nil:
		b.count(l.Kind, "discarded")
	default:
		if err := guarded(func() error { return h.Inherit(ctx, l, raw.Deliveries == 0) }); err != nil {
			return fmt.Errorf("a letter of kind %s: %w", l.Kind, err)
		}
		b.count(l.Kind, "inherited")
	}
	return nil
}
