package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	fetchLimit = 128
	// maxDeliveries is how often the handler of a message may fail: after the last of these it becomes a dead letter.
	maxDeliveries = 5
	// retryAfter is how long the handling of a message may take before it is delivered again.
	retryAfter = 5 * time.Second
	// pendingFor is how long after a fetch messages may be pending without being delivered again: retryAfter, and the interval after which
	// they are looked for.
	pendingFor = 2 * retryAfter
	// pendingInterval is how often pending messages are looked for although there should be none.
	pendingInterval = 30 * time.Second
	// maxAsync is how many messages are handled concurrently with the reader.
	maxAsync = 64
)

// inboxBackoff is between two tries to read the inbox. It is short, because jobs wait for their delivery when the store is back.
var inboxBackoff = run.Backoff{Min: 20 * time.Millisecond, Max: 100 * time.Millisecond}

// The reasons of dead letters.
const (
	reasonUnreadable = "NOT_UNDERSTOOD" // it cannot be read, or there is no handler for its kind
	reasonFailed     = "FAILED"         // its handler failed too often
)

// Handler handles the messages of one kind.
type Handler struct {
	// Handle handles a message, until its context ends, which it does when the message expires. After an error the message is
	// delivered again, a few times, and then becomes a dead letter.
	Handle func(ctx context.Context, m *Message) error
	// Async says that handling takes time: other messages do not wait for it, and may overtake it.
	Async bool
	// TakeOver handles a message that a dead instance has left behind; neverFetched says that the instance never fetched it.
	// Nil: such messages are discarded.
	TakeOver func(ctx context.Context, m *Message, neverFetched bool) error
}

// Receiver handles the messages to this instance, and takes over what dead instances leave behind.
type Receiver struct {
	*Bus
	handlers map[Kind]Handler
	onDead   func(ctx context.Context, id core.InstanceID) error

	handled recentIDs
	excused counters // failures of messages that were the store's fault

	mu        run.Mutex
	takeovers map[core.InstanceID]*takeover // of instances that are dead and not removed yet

	work  sync.WaitGroup
	async chan struct{} // bounds the asynchronous handlers
}

// NewReceiver makes a receiver. onDead takes over what a dead instance leaves beside its messages; of all instances one calls it,
// and calls it again if it fails or dies meanwhile. Its context ends with the lock under which it runs.
func NewReceiver(b *Bus, handlers map[Kind]Handler, onDead func(ctx context.Context, id core.InstanceID) error) *Receiver {
	return &Receiver{
		Bus: b, handlers: handlers, onDead: onDead, handled: newRecentIDs(), excused: newCounters(),
		mu:        run.NewMutex("bus_takeovers"),
		takeovers: make(map[core.InstanceID]*takeover), async: make(chan struct{}, maxAsync),
	}
}

// Run renews the presence, handles messages and takes over from dead instances, until the context ends. Then it waits for
// everything that it has begun.
func (r *Receiver) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { r.renewPresence(ctx) })
	loops.Go(func() { r.readInbox(ctx) })
	loops.Go(func() { r.retryPending(ctx) })
	loops.Go(func() { r.watchInstances(ctx) })
	loops.Wait()
	r.work.Wait()
}

// Leave ends the presence, after Run. If nothing is left to take over it also removes the instance's inbox and name; else the
// others find it as if it had died.
func (r *Receiver) Leave(ctx context.Context, clean bool) error {
	if err := r.store.Announce(ctx, store.AnnounceParams{ID: r.cfg.Instance}); err != nil || !clean {
		return err
	}
	return r.drainAbandoned(ctx, r.cfg.Instance, new(takeover))
}

// readInbox handles messages as they arrive.
func (r *Receiver) readInbox(ctx context.Context) {
	retry, failing := inboxBackoff, false
	for ctx.Err() == nil {
		messages, err := r.store.Fetch(ctx, store.FetchParams{Inbox: r.cfg.Instance, Wait: r.cfg.Block, Limit: fetchLimit})
		if err != nil || len(messages) > 0 {
			r.recordFetch() // the reply with messages may have been lost
		}
		if err != nil {
			if !failing && ctx.Err() == nil {
				r.log.Warn("the inbox could not be read; it is tried again until it can be", "error", err)
			}
			failing = true
			retry.Wait(ctx)
			continue
		}
		retry.Reset()
		failing = false
		r.process(ctx, messages)
	}
}

// retryPending handles messages again that were fetched and not acknowledged. While none was fetched for a while it asks rarely.
func (r *Receiver) retryPending(ctx context.Context) {
	var asked time.Time
	for run.SleepJitter(ctx, retryAfter/2, 0.2) {
		fetched := r.fetched.Load()
		if (fetched == nil || time.Since(*fetched) > pendingFor) && time.Since(asked) < pendingInterval {
			continue
		}
		asked = time.Now()
		messages, err := r.store.Pending(ctx, store.FetchParams{Inbox: r.cfg.Instance, MinIdle: retryAfter, Limit: fetchLimit})
		if err != nil || len(messages) > 0 {
			r.recordFetch()
		}
		if err == nil {
			r.metrics.Reclaimed.WithLabelValues(telemetry.ReclaimedOwn).Add(float64(len(messages)))
			r.process(ctx, messages)
		}
	}
}

// process handles messages, in their order except for the asynchronous ones, and acknowledges those that are done.
func (r *Receiver) process(ctx context.Context, messages []store.InboxMessage) {
	var done []string
	received := time.Now()
	for _, raw := range messages {
		m, h, next := r.open(ctx, &raw)
		switch {
		case next == skip:
		case next == acknowledge:
			done = append(done, raw.ID)
		case h.Async:
			r.async <- struct{}{}
			r.work.Go(func() {
				defer func() { <-r.async }()
				if r.handle(ctx, received, &raw, m, h) {
					r.acknowledge(ctx, raw.ID)
				}
			})
		case r.handle(ctx, received, &raw, m, h):
			done = append(done, raw.ID)
		}
	}
	r.acknowledge(ctx, done...)
}

// nextStep is what is to be done with a message that was opened.
type nextStep uint8

const (
	handle      nextStep = iota // call its handler
	acknowledge                 // remove it from the inbox: it is not needed any more
	skip                        // it became a dead letter, and is removed with that; if that failed it is delivered again
)

// open decodes a message and decides what is to be done with it.
func (r *Receiver) open(ctx context.Context, raw *store.InboxMessage) (*Message, Handler, nextStep) {
	m := new(Message)
	err := json.Unmarshal(raw.Body, m)
	h, known := r.handlers[m.Kind]
	switch {
	case err != nil || !known:
		_ = r.deadLetter(ctx, r.cfg.Instance, raw, failure{reason: reasonUnreadable, tries: raw.Deliveries})
		return nil, h, skip
	case m.expired(raw.Age):
		r.count(m.Kind, "stale")
		return nil, h, acknowledge
	case r.handled.has(m.ID):
		r.count(m.Kind, "duplicate")
		return nil, h, acknowledge
	case r.failures(raw) > maxDeliveries: // its handler never returned, or it could not be made a dead letter then
		_ = r.deadLetter(ctx, r.cfg.Instance, raw, failure{reason: reasonFailed, tries: raw.Deliveries - 1})
		return nil, h, skip
	}
	return m, h, handle
}

// failures is how many deliveries of a message count against it.
func (r *Receiver) failures(raw *store.InboxMessage) int {
	return raw.Deliveries - r.excused.get(raw.ID)
}

// handle calls the handler of a message and reports whether it succeeded. The handler's context ends when the message expires:
// this process may have been stopped since it was received.
func (r *Receiver) handle(ctx context.Context, received time.Time, raw *store.InboxMessage, m *Message, h Handler) bool {
	ctx, cancel := context.WithDeadline(ctx, received.Add(m.ttl()-raw.Age))
	defer cancel()
	r.metrics.InboxLag.Observe((raw.Age + time.Since(received)).Seconds()) // the age is by the store's clock, and only a duration is added
	err := recovered(func() error { return h.Handle(ctx, m) })
	switch {
	case err == nil:
		r.handled.add(m.ID)
		r.count(m.Kind, "done")
		return true
	case errors.Is(err, errUnreadable):
		_ = r.deadLetter(ctx, r.cfg.Instance, raw, failure{reason: reasonUnreadable, tries: raw.Deliveries})
		return false
	}
	r.count(m.Kind, "failed")
	if isStoreDown(err) {
		r.excused.add(raw.ID)
	}
	if r.failures(raw) >= maxDeliveries {
		_ = r.deadLetter(ctx, r.cfg.Instance, raw, failure{reason: reasonFailed, tries: raw.Deliveries, cause: err})
		return false
	}
	r.log.Warn("a message could not be handled; it is tried again until it expires", "kind", string(m.Kind), "from", m.From, "error", err)
	return false
}

// isStoreDown reports whether a handler failed because the store did not answer. That does not count against the message, which
// is tried until it expires.
func isStoreDown(err error) bool {
	var e *wire.Error
	return errors.Is(err, store.ErrDown) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.As(err, &e) && (e.Code == wire.SchedulerDependencyDown || e.Code == wire.DeadlineExceeded)
}

// recovered makes an error of a panic: one message must not end the instance.
func recovered(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return fn()
}

func (r *Receiver) acknowledge(ctx context.Context, ids ...string) {
	if len(ids) == 0 {
		return
	}
	r.excused.remove(ids...)
	if err := r.store.Acknowledge(ctx, r.cfg.Instance, ids...); err != nil && ctx.Err() == nil {
		r.log.Warn("messages could not be removed from the inbox; they are delivered again, and recognised", "messages", len(ids), "error",
			err)
	}
}

// failure is why a message becomes a dead letter.
type failure struct {
	reason string
	tries  int
	cause  error // the last error of its handler, if there was one
}

// deadLetter moves a message of an inbox to the dead letters. If that fails, the message is delivered again.
func (r *Receiver) deadLetter(ctx context.Context, inbox core.InstanceID, raw *store.InboxMessage, f failure) error {
	m := *raw
	m.Deliveries = f.tries
	id, err := r.store.DeadLetter(ctx, store.DeadLetterParams{Inbox: inbox, Message: m, Reason: f.reason, Keep: r.cfg.Keep})
	if err != nil {
		return err
	}
	r.excused.remove(raw.ID)
	if id == "" {
		return nil // it became one before
	}
	r.count(r.kindOf(raw), "dead")
	r.cfg.Events.Record(store.Event{Kind: store.EventDeadLetter, Detail: deadLetterName(inbox, id) + ": " + f.reason})
	facts := []any{"id", deadLetterName(inbox, id), "reason", f.reason, "tries", f.tries, "bytes", len(raw.Body)}
	if f.cause != nil {
		facts = append(facts, "error", f.cause)
	}
	r.log.Error("a message became a dead letter; look at it with: lingua dlq show ID", facts...)
	return nil
}

func (r *Receiver) count(kind Kind, result string) {
	r.metrics.MessagesHandled.WithLabelValues(string(kind), result).Inc()
}

// kindOf returns the kind of a message, a metric label: one that has a handler, or kindUnknown.
func (r *Receiver) kindOf(raw *store.InboxMessage) Kind {
	var m Message
	if json.Unmarshal(raw.Body, &m) == nil {
		if _, known := r.handlers[m.Kind]; known {
			return m.Kind
		}
	}
	return kindUnknown
}

// kindUnknown is the kind of a message that cannot be read, in metrics.
const kindUnknown Kind = "unknown"
