package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// surveyInterval is how often the state of all instances is read, although none seems to be absent.
const surveyInterval = 20 * time.Second

// watchInstances looks for dead instances, and takes over what they leave behind.
func (r *Receiver) watchInstances(ctx context.Context) {
	var surveyed time.Time
	settled := make(map[core.InstanceID]bool) // absent instances of which nothing is to be taken over
	for {
		if time.Since(surveyed) >= surveyInterval || r.anyAbsent(ctx, settled) {
			began := time.Now()
			if all, err := r.store.Instances(ctx, store.InstancesParams{Inboxes: true}); err == nil {
				surveyed, settled = began, r.takeOverFrom(ctx, all)
			}
		}
		if !run.SleepJitter(ctx, r.cfg.TTL/3, 0.2) {
			return
		}
	}
}

// anyAbsent reports whether an instance may be absent that is not settled. It does if the store does not answer.
func (r *Receiver) anyAbsent(ctx context.Context, settled map[core.InstanceID]bool) bool {
	absent, err := r.store.Instances(ctx, store.InstancesParams{SilentFor: r.cfg.TTL})
	return err != nil || slices.ContainsFunc(absent, func(i store.Instance) bool {
		return !i.Present && !settled[i.ID] && i.ID != r.cfg.Instance
	})
}

// takeOverFrom begins to take over from the dead ones of all instances, and returns the absent ones that are settled.
func (r *Receiver) takeOverFrom(ctx context.Context, all []store.Instance) map[core.InstanceID]bool {
	r.updateCounts(all)
	r.pruneTakeovers(all)
	settled := make(map[core.InstanceID]bool)
	for i := range all {
		switch instance := &all[i]; {
		case instance.Present || instance.ID == r.cfg.Instance:
		case instance.HasInbox || instance.DeadLetters == 0:
			r.work.Go(func() { r.reap(ctx, instance.ID) })
		default:
			settled[instance.ID] = true
		}
	}
	return settled
}

// updateCounts updates the metrics and the count of dead letters.
func (r *Receiver) updateCounts(all []store.Instance) {
	present, dead := 0, 0
	for _, instance := range all {
		dead += instance.DeadLetters
		if instance.Present {
			present++
		}
		if instance.ID == r.cfg.Instance {
			r.metrics.InboxMessages.Set(float64(instance.Inbox))
			r.metrics.InboxPending.Set(float64(instance.Pending))
			r.metrics.DeadLetters.Set(float64(instance.DeadLetters))
		}
	}
	r.metrics.Instances.Set(float64(present))
	r.dead.Store(int64(dead))
}

// takeover is the state of taking over from one dead instance.
type takeover struct {
	running  bool     // a goroutine is at work, which has the other fields to itself
	onDead   bool     // onDead has succeeded
	failures counters // of the abandoned messages
}

// takeoverLock is how long an instance may stop renewing the lock before another takes over in its place.
const takeoverLock = 10 * time.Second

// reap takes over everything a dead instance left behind. A lock elects one reaper; every step is idempotent, so a second one
// does no harm.
func (r *Receiver) reap(ctx context.Context, id core.InstanceID) {
	lock := store.LockParams{Name: "takeover:" + string(id), Holder: string(r.cfg.Instance), TTL: takeoverLock}
	requested := time.Now()
	held, err := r.store.Lock(ctx, lock)
	if err != nil || !held.Held {
		return // another instance is the reaper, or it is tried again
	}
	t := r.beginTakeover(id)
	if t == nil {
		return // it is running
	}
	defer r.endTakeover(t)
	holding, release := store.KeepLock(ctx, r.store, lock, held.Fence, requested)
	err = r.takeOver(holding, id, t)
	release()
	if err != nil {
		if ctx.Err() == nil {
			r.log.Warn("the takeover from a dead instance failed; it is tried again", "instance", id, "error", err)
		}
		return
	}
	r.metrics.Takeovers.WithLabelValues(telemetry.TakeoverInstance).Inc()
	_ = r.store.Unlock(ctx, lock) // else it expires
}

// takeOver calls onDead and then empties the inbox of a dead instance. Its name is removed last, because it is found by that.
func (r *Receiver) takeOver(ctx context.Context, id core.InstanceID, t *takeover) error {
	if !t.onDead {
		r.log.Warn("an instance is dead; its jobs and messages are taken over", "instance", id)
		if err := recovered(func() error { return r.onDead(ctx, id) }); err != nil {
			return err
		}
		t.onDead = true
	}
	return r.drainAbandoned(ctx, id, t)
}

// beginTakeover marks a takeover as running; nil when it is already.
func (r *Receiver) beginTakeover(id core.InstanceID) *takeover {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.takeovers[id]
	if t == nil {
		t = &takeover{failures: newCounters()}
		r.takeovers[id] = t
	}
	if t.running {
		return nil
	}
	t.running = true
	return t
}

func (r *Receiver) endTakeover(t *takeover) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.running = false
}

// pruneTakeovers drops the state of takeovers that are complete, or whose instances are present again.
func (r *Receiver) pruneTakeovers(all []store.Instance) {
	dead := make(map[core.InstanceID]bool)
	for i := range all {
		dead[all[i].ID] = !all[i].Present
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.takeovers, func(id core.InstanceID, t *takeover) bool { return !dead[id] && !t.running })
}

// drainAbandoned handles the messages of an absent instance and removes its inbox. The other messages do not wait for one that
// fails.
func (r *Receiver) drainAbandoned(ctx context.Context, id core.InstanceID, t *takeover) error {
	for {
		messages, err := r.store.FetchAbandoned(ctx, id, fetchLimit)
		if err != nil {
			return err
		}
		if len(messages) == 0 {
			_, err := r.store.RemoveInbox(ctx, id)
			return err
		}
		var failed error
		for i := range messages {
			err := r.handleAbandoned(ctx, id, t, &messages[i])
			if err == nil {
				r.metrics.Reclaimed.WithLabelValues(telemetry.ReclaimedAbandoned).Inc()
			} else {
				failed = err
				if isStoreDown(err) {
					break
				}
			}
		}
		if failed != nil {
			return failed
		}
	}
}

// handleAbandoned handles one message of an absent instance and removes it from the inbox.
func (r *Receiver) handleAbandoned(ctx context.Context, id core.InstanceID, t *takeover, raw *store.InboxMessage) error {
	m := new(Message)
	err := json.Unmarshal(raw.Body, m)
	h, known := r.handlers[m.Kind]
	switch {
	case err != nil || !known:
		return r.deadLetter(ctx, id, raw, failure{reason: reasonUnreadable, tries: raw.Deliveries + 1})
	case m.expired(raw.Age):
		r.count(m.Kind, "stale")
	case h.TakeOver == nil:
		r.count(m.Kind, "discarded")
	default:
		err := recovered(func() error { return h.TakeOver(ctx, m, raw.Deliveries == 0) })
		if err != nil {
			return r.abandonedFailed(ctx, id, t, raw, fmt.Errorf("a message of kind %s: %w", m.Kind, err))
		}
		r.count(m.Kind, "taken_over")
	}
	return r.store.Acknowledge(ctx, id, raw.ID)
}

// abandonedFailed makes an abandoned message whose handler failed a dead letter, or returns the error if it is to be retried.
func (r *Receiver) abandonedFailed(ctx context.Context, id core.InstanceID, t *takeover, raw *store.InboxMessage, cause error) error {
	f := failure{reason: reasonUnreadable, tries: raw.Deliveries + 1}
	switch {
	case errors.Is(cause, errUnreadable):
	case isStoreDown(cause):
		return cause
	default:
		failures := t.failures.add(raw.ID)
		if failures < maxDeliveries {
			return cause
		}
		f = failure{reason: reasonFailed, tries: raw.Deliveries + failures, cause: cause}
	}
	return r.deadLetter(ctx, id, raw, f)
}
