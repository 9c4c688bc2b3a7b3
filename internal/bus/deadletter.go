package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// DeadLetter is a message that could not be handled. Its name contains the inbox in which it was.
type DeadLetter struct {
	store.DeadLetter
	Message // as far as it can be read
}

// Name identifies the dead letter among those of all instances.
func (d *DeadLetter) Name() string { return deadLetterName(d.Inbox, d.DeadLetter.ID) }

func deadLetterName(inbox core.InstanceID, id string) string { return string(inbox) + "/" + id }

// ErrNoDeadLetter says that there is no such dead letter, or not any more.
var ErrNoDeadLetter = errors.New("there is no such dead letter, or not any more")

// ErrExpired says that the time to live of a dead letter is over: a replay would do nothing, or harm.
var ErrExpired = errors.New("this dead letter has expired")

// DeadLetters lists dead letters of all instances, the oldest of each first, and how many there are in total.
func (b *Bus) DeadLetters(ctx context.Context, limit int) (list []DeadLetter, total int, err error) {
	instances, err := b.store.Instances(ctx, store.InstancesParams{Inboxes: true})
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(instances, func(a, b store.Instance) int { return cmp.Compare(a.ID, b.ID) })
	for _, instance := range instances {
		total += instance.DeadLetters
		if instance.DeadLetters == 0 || len(list) >= limit {
			continue
		}
		some, err := b.store.DeadLetters(ctx, instance.ID, "", limit-len(list))
		if err != nil {
			return nil, 0, err
		}
		for _, d := range some {
			list = append(list, decodeDeadLetter(d))
		}
	}
	return list, max(total, len(list)), nil // the counts may be older than the list
}

// DeadLetterCount returns how many dead letters all instances have, as this one found when it last looked for dead instances.
func (b *Bus) DeadLetterCount() int { return int(b.dead.Load()) }

func decodeDeadLetter(d store.DeadLetter) DeadLetter {
	decoded := DeadLetter{DeadLetter: d}
	_ = json.Unmarshal(d.Body, &decoded.Message) // that it is unreadable may be why it is a dead letter
	return decoded
}

// DeadLetter returns a dead letter by its name.
func (b *Bus) DeadLetter(ctx context.Context, name string) (DeadLetter, error) {
	inbox, id, ok := strings.Cut(name, "/")
	if !ok {
		return DeadLetter{}, ErrNoDeadLetter
	}
	for after := ""; ; {
		some, err := b.store.DeadLetters(ctx, core.InstanceID(inbox), after, fetchLimit)
		if err != nil {
			return DeadLetter{}, err
		}
		if len(some) == 0 {
			return DeadLetter{}, ErrNoDeadLetter
		}
		for _, d := range some {
			if d.ID == id {
				return decodeDeadLetter(d), nil
			}
		}
		after = some[len(some)-1].ID
	}
}

// Replay moves a dead letter into the inbox of this instance. It keeps its age: one that has expired stays where it is, with
// ErrExpired. If this instance cannot handle it either, it becomes a dead letter again.
func (b *Bus) Replay(ctx context.Context, name string) error {
	d, err := b.DeadLetter(ctx, name)
	if err != nil {
		return err
	}
	if d.Kind != "" && d.expired(d.Age) {
		return ErrExpired
	}
	posted, err := b.store.Replay(ctx, store.ReplayParams{Inbox: d.Inbox, ID: d.DeadLetter.ID, To: b.cfg.Instance, MaxMessages: maxInbox})
	switch {
	case err != nil:
		return err
	case posted == store.NoDeadLetter:
		return ErrNoDeadLetter
	case posted == store.InstanceAbsent:
		return ErrAbsent
	case posted == store.InboxFull:
		return ErrFull
	}
	return nil
}

// Purge drops a dead letter.
func (b *Bus) Purge(ctx context.Context, name string) error {
	inbox, id, ok := strings.Cut(name, "/")
	if !ok {
		return ErrNoDeadLetter
	}
	n, err := b.store.Discard(ctx, core.InstanceID(inbox), id)
	if err == nil && n == 0 {
		err = ErrNoDeadLetter
	}
	return err
}
