package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/lingua-scheduler/lingua/internal/pause"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	fetchAtOnce = 128
	// mostDeliveries is how often a letter is tried before it is dead.
	mostDeliveries = 5
	// retryAfter is how long a letter that was fetched may take before it is tried again.
	retryAfter = 5 * time.Second
	firstPause = 20 * time.Millisecond
	mostPause  = time.Second
)

// Why a letter is dead.
const (
	reasonUnread = "NOT_UNDERSTOOD" // it cannot be read, or nobody here knows what to do with it
	reasonFailed = "FAILED"         // it was tried often enough
)

// read deals with letters as they come.
func (b *Bus) read(ctx context.Context) {
	wait := firstPause
	for ctx.Err() == nil {
		letters, err := b.store.Fetch(ctx, store.FetchParams{Inbox: b.cfg.Instance, Wait: b.cfg.Block, Limit: fetchAtOnce})
		if err != nil {
			if ctx.Err() == nil {
				b.log.Warn("the inbox could not be read", "error", err)
			}
			pause.About(ctx, wait, 0.5)
			wait = min(2*wait, mostPause)
			continue
		}
		wait = firstPause
		b.deal(ctx, letters)
	}
}

// retry deals once more with letters that were fetched and not settled.
func (b *Bus) retry(ctx context.Context) {
	for pause.About(ctx, retryAfter/2, 0.2) {
		letters, err := b.store.Unsettled(ctx, store.FetchParams{Inbox: b.cfg.Instance, Wait: retryAfter, Limit: fetchAtOnce})
		if err == nil {
			b.deal(ctx, letters)
		}
	}
}

// deal sees to letters, in their order but for those that take time, and takes out of the inbox what is dealt with.
func (b *Bus) deal(ctx context.Context, letters []store.Letter) {
	var settled []string
	for _, raw := range letters {
		l, h, ok := b.open(ctx, &raw)
		switch {
		case !ok:
		case l == nil: // nobody needs it
			settled = append(settled, raw.ID)
		case h.Beside:
			b.slots <- struct{}{}
			b.work.Go(func() {
				defer func() { <-b.slots }()
				if b.do(ctx, &raw, l, h) {
					b.settle(ctx, raw.ID)
				}
			})
		case b.do(ctx, &raw, l, h):
			settled = append(settled, raw.ID)
		}
	}
	b.settle(ctx, settled...)
}

// open reads a letter. It reports false when that is all there is to do; without a letter it is only to be taken out.
func (b *Bus) open(ctx context.Context, raw *store.Letter) (*Letter, Handling, bool) {
	l := new(Letter)
	err := json.Unmarshal(raw.Body, l)
	h, known := b.kinds[l.Kind]
	switch {
	case err != nil || !known:
		b.condemn(ctx, raw, reasonUnread)
		return nil, h, false
	case l.stale(raw.Age):
		b.count(l.Kind, "stale")
		return nil, h, true
	case !b.seen.first(l.ID):
		b.count(l.Kind, "again")
		return nil, h, true
	case raw.Deliveries-b.excused.of(raw.ID) > mostDeliveries:
		b.condemn(ctx, raw, reasonFailed)
		return nil, h, false
	}
	return l, h, true
}

// do deals with one letter and reports whether that worked.
func (b *Bus) do(ctx context.Context, raw *store.Letter, l *Letter, h Handling) bool {
	if err := guarded(func() error { return h.Do(ctx, l) }); err != nil {
		b.count(l.Kind, "failed")
		if storeAway(err) {
			b.excused.note(raw.ID)
		}
		b.log.Warn("a letter could not be dealt with; it is tried again", "kind", string(l.Kind), "from", l.From, "error", err)
		return false
	}
	b.seen.note(l.ID)
	b.count(l.Kind, "done")
	return true
}

// storeAway reports whether a letter could not be dealt with because the store did not answer. That is not its fault: it is
// tried until nobody needs it any more.
func storeAway(err error) bool {
	var e *wire.Error
	return errors.Is(err, store.ErrDown) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.As(err, &e) && (e.Code == wire.SchedulerDependencyDown || e.Code == wire.DeadlineExceeded)
}

// guarded makes an error of a panic: one letter must not end the instance.
func guarded(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return fn()
}

func (b *Bus) settle(ctx context.Context, ids ...string) {
	if len(ids) == 0 {
		return
	}
	b.excused.forget(ids...)
	if err := b.store.Settle(ctx, b.cfg.Instance, ids...); err != nil && ctx.Err() == nil {
		b.log.Warn("letters could not be taken out of the inbox; they come again, and are known", "letters", len(ids), "error", err)
	}
}

// condemn puts a letter among the dead.
func (b *Bus) condemn(ctx context.Context, raw *store.Letter, reason string) {
	err := b.store.Condemn(ctx, store.CondemnParams{Inbox: b.cfg.Instance, Letter: *raw, Reason: reason, Keep: b.cfg.Keep})
	if err != nil {
		return // it comes again
	}
	b.metrics.LettersDealt.WithLabelValues("", "dead").Inc()
	b.log.Error("a letter is dead; look at it with: lingua dlq list", "id", raw.ID, "reason", reason, "deliveries", raw.Deliveries, "bytes", len(raw.Body))
}

func (b *Bus) count(kind Kind, result string) {
	b.metrics.LettersDealt.WithLabelValues(string(kind), result).Inc()
}
