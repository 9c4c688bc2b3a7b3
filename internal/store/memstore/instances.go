package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// instances holds the instances with their inboxes and dead letters.
type instances struct {
	mu          run.Mutex
	byID        map[core.InstanceID]*instance
	lastMessage uint64
}

// instance is one instance, present or not.
type instance struct {
	body             []byte
	hasInbox         bool // Announce created it, and RemoveInbox has not removed it
	presentUntil     moment
	messages         []*message
	deadLetters      []deadLetter
	deadLettersUntil moment
	arrived          chan struct{} // closed when a message arrives; nil when no caller waits for one
}

// message is a message in an inbox.
type message struct {
	id         string
	body       []byte
	posted     moment
	fetched    moment
	deliveries int
	abandoned  bool // FetchAbandoned returned it before its own instance fetched it
}

// deadLetter is a message that could not be handled.
type deadLetter struct {
	store.DeadLetter
	posted moment
}

// export returns the dead letter with its current age.
func (d *deadLetter) export(now moment) store.DeadLetter {
	exported := d.DeadLetter
	exported.Age = now.since(d.posted)
	return exported
}

// find returns an instance that is, or was, present, without its expired dead letters; nil when it is not known. The caller holds the
// lock.
func (m *instances) find(id core.InstanceID, now moment) *instance {
	inst := m.byID[id]
	if inst != nil && len(inst.deadLetters) > 0 && expired(inst.deadLettersUntil, now) {
		inst.deadLetters = nil
	}
	return inst
}

// Announce implements store.Instances.
func (s *Store) Announce(ctx context.Context, p store.AnnounceParams) error {
	s.instances.mu.Lock()
	defer s.instances.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	inst := s.instances.byID[p.ID]
	if inst == nil {
		inst = &instance{}
		s.instances.byID[p.ID] = inst
	}
	inst.body, inst.hasInbox, inst.presentUntil = slices.Clone(p.Body), true, s.now().add(p.TTL)
	return nil
}

// Withdraw implements store.Instances.
func (s *Store) Withdraw(ctx context.Context, id core.InstanceID) error {
	s.instances.mu.Lock()
	defer s.instances.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if inst := s.instances.byID[id]; inst != nil {
		inst.presentUntil = s.now()
	}
	return nil
}

// Instances implements store.Instances.
func (s *Store) Instances(context.Context) ([]store.Instance, error) {
	s.instances.mu.Lock()
	defer s.instances.mu.Unlock()
	now := s.now()
	var list []store.Instance
	for id := range s.instances.byID {
		inst := s.instances.find(id, now)
		exported := store.Instance{ID: id, Present: !expired(inst.presentUntil, now), HasInbox: inst.hasInbox, Inbox: len(inst.messages),
			DeadLetters: len(inst.deadLetters)}
		if exported.Present {
			exported.Body = slices.Clone(inst.body)
		}
		for _, m := range inst.messages {
			if m.deliveries > 0 {
				exported.Pending++
			}
		}
		list = append(list, exported)
	}
	slices.SortFunc(list, func(a, b store.Instance) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// Presences implements store.Instances.
func (s *Store) Presences(ctx context.Context) ([]store.Instance, error) {
	all, err := s.Instances(ctx)
	for i := range all {
		all[i] = store.Instance{ID: all[i].ID, Present: all[i].Present, Body: all[i].Body}
	}
	return all, err
}

// MaybeAbsent implements store.Instances.
func (s *Store) MaybeAbsent(context.Context, time.Duration) ([]core.InstanceID, error) {
	s.instances.mu.Lock()
	defer s.instances.mu.Unlock()
	var absent []core.InstanceID
	for id, inst := range s.instances.byID {
		if expired(inst.presentUntil, s.now()) {
			absent = append(absent, id)
		}
	}
	return absent, nil
}
