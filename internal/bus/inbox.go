package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	fetchAtOnce = 128
	// mostDeliveries is how often a letter may fail: with the last of these it is dead.
	mostDeliveries = 5
	// retryAfter is how long a letter that was fetched may take before it is tried again.
	retryAfter = 5 * time.Second
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second
)

// Why a letter is dead.
const (
	reasonUnread = "NOT_UNDERSTOOD" // it cannot be read, or nobody here knows what to do with it
	reasonFailed = "FAILED"         // it was tried often enough
)

// read deals with letters as they come.
func (b *Bus) read(ctx context.Context) {
	retry := backoff.Backoff{Min: minBackoff, Max: maxBackoff}
	for ctx.Err() == nil {
		letters, err := b.store.Fetch(ctx, store.FetchParams{Inbox: b.cfg.Instance, Wait: b.cfg.Block, Limit: fetchAtOnce})
		if err != nil {
			if ctx.Err() == nil {
				b.log.Warn("the inbox could not be read", "error", err)
			}
			retry.Wait(ctx)
			continue
		}
		retry.Reset()
		b.deal(ctx, letters)
	}
}

// retry deals once more with letters that were fetched and not settled.
func (b *Bus) retry(ctx context.Context) {
	for backoff.SleepJitter(ctx, retryAfter/2, 0.2) {
		letters, err := b.store.Pending(ctx, store.FetchParams{Inbox: b.cfg.Instance, Wait: retryAfter, Limit: fetchAtOnce})
		if err == nil {
			b.deal(ctx, letters)
		}
	}
}

// deal sees to letters, in their order but for those that take time, and takes out of the inbox what is dealt with.
func (b *Bus) deal(ctx context.Context, letters []store.InboxMessage) {
	var settled []string
	for _, raw := range letters {
		l, h, what := b.open(ctx, &raw)
		switch {
		case what == leave:
		case what == takeOut:
			settled = append(settled, raw.ID)
		case h.Async:
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

// opened is what is to be done with a letter that was opened.
type opened uint8

const (
	dealWith opened = iota // somebody here is to deal with it
	takeOut                // nobody needs it: it only has to be taken out of the inbox
	leave                  // it is among the dead, and out of the inbox with that; if that failed it comes again
)

// open reads a letter and says what is to be done with it.
func (b *Bus) open(ctx context.Context, raw *store.InboxMessage) (*Message, Handler, opened) {
	l := new(Message)
	err := json.Unmarshal(raw.Body, l)
	h, known := b.kinds[l.Kind]
	switch {
	case err != nil || !known:
		_ = b.condemn(ctx, b.cfg.Instance, raw, verdict{reason: reasonUnread, tries: raw.Deliveries})
		return nil, h, leave
	case l.stale(raw.Age):
		b.count(l.Kind, "stale")
		return nil, h, takeOut
	case !b.seen.first(l.ID):
		b.count(l.Kind, "again")
		return nil, h, takeOut
	case b.blamed(raw) > mostDeliveries: // nobody ever came to an end with it, or it could not be condemned then
		_ = b.condemn(ctx, b.cfg.Instance, raw, verdict{reason: reasonFailed, tries: raw.Deliveries - 1})
		return nil, h, leave
	}
	return l, h, dealWith
}

// blamed is how many deliveries of a letter count against it.
func (b *Bus) blamed(raw *store.InboxMessage) int { return raw.Deliveries - b.excused.of(raw.ID) }

// do deals with one letter and reports whether that worked.
func (b *Bus) do(ctx context.Context, raw *store.InboxMessage, l *Message, h Handler) bool {
	err := guarded(func() error { return h.Handle(ctx, l) })
	switch {
	case err == nil:
		b.seen.note(l.ID)
		b.count(l.Kind, "done")
		return true
	case errors.Is(err, errUnread):
		_ = b.condemn(ctx, b.cfg.Instance, raw, verdict{reason: reasonUnread, tries: raw.Deliveries})
		return false
	}
	b.count(l.Kind, "failed")
	if storeAway(err) {
		b.excused.note(raw.ID)
	}
	if b.blamed(raw) >= mostDeliveries {
		_ = b.condemn(ctx, b.cfg.Instance, raw, verdict{reason: reasonFailed, tries: raw.Deliveries, cause: err})
		return false
	}
	b.log.Warn("a letter could not be dealt with; it is tried again while anybody needs it", "kind", string(l.Kind), "from", l.From, "error", err)
	return false
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
	if err := b.store.Acknowledge(ctx, b.cfg.Instance, ids...); err != nil && ctx.Err() == nil {
		b.log.Warn("letters could not be taken out of the inbox; they come again, and are known", "letters", len(ids), "error", err)
	}
}

// verdict is why a letter is dead.
type verdict struct {
	reason string
	tries  int
	cause  error // what went wrong the last time, if somebody tried
}

// condemn puts a letter of an inbox among the dead. If it cannot, the letter comes again.
func (b *Bus) condemn(ctx context.Context, inbox core.InstanceID, raw *store.InboxMessage, v verdict) error {
	letter := *raw
	letter.Deliveries = v.tries
	id, err := b.store.DeadLetter(ctx, store.DeadLetterParams{Inbox: inbox, ID: letter, Reason: v.reason, Keep: b.cfg.Keep})
	if err != nil {
		return err
	}
	b.excused.forget(raw.ID)
	if id == "" {
		return nil // it was condemned before
	}
	b.metrics.MessagesHandled.WithLabelValues("", "dead").Inc()
	facts := []any{"id", deadName(inbox, id), "reason", v.reason, "tries", v.tries, "bytes", len(raw.Body)}
	if v.cause != nil {
		facts = append(facts, "error", v.cause)
	}
	b.log.Error("a letter is dead; look at it with: lingua dlq show ID", facts...)
	return nil
}

func (b *Bus) count(kind Kind, result string) {
	b.metrics.MessagesHandled.WithLabelValues(string(kind), result).Inc()
}
