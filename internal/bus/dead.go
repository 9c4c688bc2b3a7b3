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

// Peer is an instance, as this one sees it.
type Peer struct {
	store.Instance
	About
	This bool // it is this one
}

// Peers lists the instances there are, and those that have left something behind, by their names.
func (b *Bus) Peers(ctx context.Context) ([]Peer, error) {
	all, err := b.store.Instances(ctx)
	if err != nil {
		return nil, err
	}
	peers := make([]Peer, len(all))
	for i, one := range all {
		peers[i] = Peer{Instance: one, This: one.ID == b.cfg.Instance}
		if one.Present {
			_ = json.Unmarshal(one.Body, &peers[i].About) // one of another version may say other things
		}
		if peers[i].Name == "" { // one that is gone says nothing
			peers[i].Name = ConfiguredName(one.ID)
		}
	}
	slices.SortFunc(peers, func(a, b Peer) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return peers, nil
}

// DeadLetter is a letter that could not be dealt with. Its name says in whose inbox it was.
type DeadLetter struct {
	store.DeadLetter
	Message // as far as it can be read
}

// Name is what the dead letter is called among those of all instances.
func (d *DeadLetter) Name() string { return deadName(d.Inbox, d.DeadLetter.ID) }

func deadName(inbox core.InstanceID, id string) string { return string(inbox) + "/" + id }

// ErrNoLetter says that there is no such dead letter, or not any more.
var ErrNoDeadLetter = errors.New("there is no such dead letter, or not any more")

// ErrStale says that nobody needs a dead letter any more: to replay it would do nothing, or harm.
var ErrStale = errors.New("nobody needs this dead letter any more")

// Dead lists dead letters of all instances, the oldest of each first, and says how many there are.
func (b *Bus) DeadLetters(ctx context.Context, limit int) (list []DeadLetter, all int, err error) {
	instances, err := b.store.Instances(ctx)
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(instances, func(a, b store.Instance) int { return cmp.Compare(a.ID, b.ID) })
	for _, one := range instances {
		all += one.DeadLetters
		if one.DeadLetters == 0 || len(list) >= limit {
			continue
		}
		some, err := b.store.DeadLetters(ctx, one.ID, "", limit-len(list))
		if err != nil {
			return nil, 0, err
		}
		for _, d := range some {
			list = append(list, read(d))
		}
	}
	return list, max(all, len(list)), nil // one may have died meanwhile
}

func read(d store.DeadLetter) DeadLetter {
	one := DeadLetter{DeadLetter: d}
	_ = json.Unmarshal(d.Body, &one.Message) // that it cannot be read may be why it is dead
	return one
}

// find looks for a dead letter by its name.
func (b *Bus) find(ctx context.Context, name string) (DeadLetter, error) {
	inbox, id, ok := strings.Cut(name, "/")
	if !ok {
		return DeadLetter{}, ErrNoDeadLetter
	}
	for after := ""; ; {
		some, err := b.store.DeadLetters(ctx, core.InstanceID(inbox), after, fetchAtOnce)
		if err != nil {
			return DeadLetter{}, err
		}
		if len(some) == 0 {
			return DeadLetter{}, ErrNoDeadLetter
		}
		for _, d := range some {
			if d.ID == id {
				return read(d), nil
			}
		}
		after = some[len(some)-1].ID
	}
}

// Show returns one dead letter.
func (b *Bus) DeadLetter(ctx context.Context, name string) (DeadLetter, error) {
	return b.find(ctx, name)
}

// Replay puts a dead letter into the inbox of this instance and takes it from the dead. It is as old as it was: one that
// nobody needs any more stays where it is, with ErrStale. If this instance cannot deal with it either, it dies again.
func (b *Bus) Replay(ctx context.Context, name string) error {
	d, err := b.find(ctx, name)
	if err != nil {
		return err
	}
	if d.Kind != "" && d.stale(d.Age) {
		return ErrStale
	}
	posted, err := b.store.Replay(ctx, store.ReplayParams{Inbox: d.Inbox, ID: d.DeadLetter.ID, To: b.cfg.Instance, MaxMessages: mostLetters})
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
