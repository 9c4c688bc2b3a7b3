package memstore

import (
	"cmp"
	"context"
	"slices"

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
	if p.TTL == 0 {
		if inst != nil {
			inst.presentUntil = s.now()
		}
		return nil
	}
	if inst == nil {
		inst = &instance{}
		s.instances.byID[p.ID] = inst
	}
	inst.body, inst.hasInbox, inst.presentUntil = slices.Clone(p.Body), true, s.now().add(p.TTL)
	return nil
}

// Instances implements store.Instances.
func (s *Store) Instances(_ context.Context, p store.InstancesParams) ([]store.Instance, error) {
	s.instances.mu.Lock()
	defer s.instances.mu.Unlock()
	now := s.now()
	var list []store.Instance
	for id := range s.instances.byID {
		inst := s.instances.find(id, now)
		exported := store.Instance{ID: id, Present: !expired(inst.presentUntil, now)}
		if exported.Present && p.SilentFor > 0 {
			continue
		}
		if exported.Present {
			exported.Body = slices.Clone(inst.body)
		}
		if p.Inboxes {
			inst.countMessages(&exported)
		}
		list = append(list, exported)
	}
	slices.SortFunc(list, func(a, b store.Instance) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// countMessages sets what a state says of the inbox and the dead letters. The caller holds the lock.
func (i *instance) countMessages(exported *store.Instance) {
	exported.HasInbox, exported.Inbox, exported.DeadLetters = i.hasInbox, len(i.messages), len(i.deadLetters)
	for _, m := range i.messages {
		if m.deliveries > 0 {
			exported.Pending++
		}
	}
}
