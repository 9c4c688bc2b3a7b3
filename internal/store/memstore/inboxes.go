package memstore

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Post implements store.Inboxes.
func (s *Store) Post(ctx context.Context, p store.PostParams) (store.PostResult, error) {
	s.instances.mu.Lock()
	defer s.instances.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now := s.now()
	return s.instances.post(p.To, p.MaxMessages, p.Body, now, now), nil
}

// post appends a message to an inbox. The caller holds the lock.
func (m *instances) post(to core.InstanceID, maxMessages int, body []byte, posted, now moment) store.PostResult {
	inst := m.byID[to]
	switch {
	case inst == nil || expired(inst.presentUntil, now):
		return store.InstanceAbsent
	case len(inst.messages) >= maxMessages:
		return store.InboxFull
	}
	m.lastMessage++
	inst.messages = append(inst.messages, &message{id: strconv.FormatUint(m.lastMessage, 10), body: slices.Clone(body), posted: posted})
	if inst.arrived != nil {
		close(inst.arrived)
		inst.arrived = nil
	}
	return store.Accepted
}

// Fetch implements store.Inboxes.
func (s *Store) Fetch(ctx context.Context, p store.FetchParams) ([]store.InboxMessage, error) {
	timeout := time.NewTimer(p.Wait)
	defer timeout.Stop()
	for {
		messages, arrived := s.fetch(&p)
		if len(messages) > 0 {
			return messages, nil
		}
		select {
		case <-arrived:
		case <-timeout.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// fetch returns the messages that were not fetched yet, and a channel that is closed when another arrives.
func (s *Store) fetch(p *store.FetchParams) ([]store.InboxMessage, <-chan struct{}) {
	s.instances.mu.Lock()
	defer s.instances.mu.Unlock()
	inst := s.instances.byID[p.Inbox]
	if inst == nil {
		inst = &instance{}
		s.instances.byID[p.Inbox] = inst
	}
	messages := inst.deliver(s.now(), p.Limit, func(m *message) bool { return m.deliveries == 0 && !m.abandoned })
	if inst.arrived == nil {
		inst.arrived = make(chan struct{})
	}
	return messages, inst.arrived
}

// deliver returns the selected messages and counts a delivery of each.
func (inst *instance) deliver(now moment, limit int, selected func(*message) bool) []store.InboxMessage {
	var list []store.InboxMessage
	for _, m := range inst.messages {
		if len(list) == limit {
			break
		}
		if selected(m) {
			m.deliveries++
			m.fetched, m.abandoned = now, false
			list = append(list, m.export(now))
		}
	}
	return list
}

// export returns the message with its current age.
func (m *message) export(now moment) store.InboxMessage {
	return store.InboxMessage{ID: m.id, Body: slices.Clone(m.body), Age: now.since(m.posted), Deliveries: m.deliveries}
}

// Pending implements store.Inboxes.
func (s *Store) Pending(ctx context.Context, p store.FetchParams) ([]store.InboxMessage, error) {
	s.instances.mu.Lock()
	defer s.instances.mu.Unlock()
	inst := s.instances.byID[p.Inbox]
	if inst == nil {
		return nil, ctx.Err()
	}
	now := s.now()
	return inst.deliver(now, p.Limit,
		func(m *message) bool { return (m.deliveries > 0 || m.abandoned) && now.since(m.fetched) >= p.MinIdle }), ctx.Err()
}

// Acknowledge implements store.Inboxes.
func (s *Store) Acknowledge(ctx context.Context, inbox core.InstanceID, ids ...string) error {
	s.instances.mu.Lock()
	defer s.instances.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if inst := s.instances.byID[inbox]; inst != nil {
		inst.removeMessages(ids)
	}
	return nil
}

// removeMessages removes the messages with the ids.
func (inst *instance) removeMessages(ids []string) {
	inst.messages = slices.DeleteFunc(inst.messages, func(m *message) bool { return slices.Contains(ids, m.id) })
}

// DeadLetter implements store.Inboxes.
func (s *Store) DeadLetter(ctx context.Context, p store.DeadLetterParams) (string, error) {
	s.instances.mu.Lock()
	defer s.instances.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	now := s.now()
	inst := s.instances.find(p.Inbox, now)
	if inst == nil {
		return "", nil
	}
	i := slices.IndexFunc(inst.messages, func(m *message) bool { return m.id == p.Message.ID })
	if i < 0 {
		return "", nil // it is a dead letter already, or was acknowledged
	}
	inst.deadLetters = append(inst.deadLetters,
		deadLetter{store.DeadLetter{InboxMessage: p.Message, Inbox: p.Inbox, Reason: p.Reason}, inst.messages[i].posted})
	inst.messages = slices.Delete(inst.messages, i, i+1)
	inst.deadLettersUntil = now.add(p.Keep)
	return p.Message.ID, nil
}

// FetchAbandoned implements store.AbandonedInboxes.
func (s *Store) FetchAbandoned(ctx context.Context, id core.InstanceID, limit int) ([]store.InboxMessage, error) {
	s.instances.mu.Lock()
	defer s.instances.mu.Unlock()
	now := s.now()
	inst := s.instances.byID[id]
	if inst == nil || !expired(inst.presentUntil, now) {
		return nil, ctx.Err()
	}
	var list []store.InboxMessage
	for _, m := range inst.messages[:min(limit, len(inst.messages))] {
		if m.deliveries == 0 && !m.abandoned {
			m.fetched, m.abandoned = now, true
		}
		list = append(list, m.export(now))
	}
	return list, ctx.Err()
}

// RemoveInbox implements store.AbandonedInboxes.
func (s *Store) RemoveInbox(ctx context.Context, id core.InstanceID) (bool, error) {
	s.instances.mu.Lock()
	defer s.instances.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	now := s.now()
	inst := s.instances.find(id, now)
	switch {
	case inst == nil:
	case !expired(inst.presentUntil, now):
		return false, nil
	case len(inst.deadLetters) > 0:
		inst.messages, inst.hasInbox = nil, false
	default:
		delete(s.instances.byID, id)
	}
	return true, nil
}

// DeadLetters implements store.AbandonedInboxes.
func (s *Store) DeadLetters(ctx context.Context, inbox core.InstanceID, after string, limit int) ([]store.DeadLetter, error) {
	s.instances.mu.Lock()
	defer s.instances.mu.Unlock()
	now := s.now()
	inst := s.instances.find(inbox, now)
	if inst == nil {
		return nil, ctx.Err()
	}
	var list []store.DeadLetter
	for i := 1 + inst.indexOfDeadLetter(after); i < len(inst.deadLetters) && len(list) < limit; i++ {
		list = append(list, inst.deadLetters[i].export(now))
	}
	return list, ctx.Err()
}

// indexOfDeadLetter returns the index of a dead letter, -1 when there is none with the id.
func (inst *instance) indexOfDeadLetter(id string) int {
	return slices.IndexFunc(inst.deadLetters, func(d deadLetter) bool { return d.ID == id })
}

// Replay implements store.AbandonedInboxes.
func (s *Store) Replay(ctx context.Context, p store.ReplayParams) (store.PostResult, error) {
	s.instances.mu.Lock()
	defer s.instances.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now := s.now()
	inst := s.instances.find(p.Inbox, now)
	if inst == nil {
		return store.NoDeadLetter, nil
	}
	i := inst.indexOfDeadLetter(p.ID)
	if i < 0 {
		return store.NoDeadLetter, nil
	}
	posted := s.instances.post(p.To, p.MaxMessages, inst.deadLetters[i].Body, inst.deadLetters[i].posted, now)
	if posted == store.Accepted {
		inst.deadLetters = slices.Delete(inst.deadLetters, i, i+1)
	}
	return posted, nil
}

// Discard implements store.AbandonedInboxes.
func (s *Store) Discard(ctx context.Context, inbox core.InstanceID, ids ...string) (int, error) {
	s.instances.mu.Lock()
	defer s.instances.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	inst := s.instances.find(inbox, s.now())
	if inst == nil {
		return 0, nil
	}
	before := len(inst.deadLetters)
	inst.deadLetters = slices.DeleteFunc(inst.deadLetters, func(d deadLetter) bool { return len(ids) == 0 || slices.Contains(ids, d.ID) })
	return before - len(inst.deadLetters), nil
}
