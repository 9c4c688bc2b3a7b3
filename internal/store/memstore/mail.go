package memstore

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// mail holds the instances and their letters.
type mail struct {
	mu    sync.Mutex
	boxes map[core.InstanceID]*box
	ids   uint64
}

// box is one instance and what lies in its inbox.
type box struct {
	body    []byte
	open    bool   // it takes letters
	present moment // until then
	letters []*letter
	dead    []deadLetter
	kept    moment        // until then, the dead
	arrived chan struct{} // if somebody waits: closed when a letter comes
}

type letter struct {
	id         string
	body       []byte
	posted     moment
	fetched    moment
	deliveries int
	inherited  bool // an heir has it in hand, and its instance never did
}

type deadLetter struct {
	store.DeadLetter
	posted moment
}

// shown is it as it is now.
func (d *deadLetter) shown(now moment) store.DeadLetter {
	one := d.DeadLetter
	one.Age = now.since(d.posted)
	return one
}

// box finds an instance that is, or was, present.
func (m *mail) box(id core.InstanceID, now moment) *box {
	b := m.boxes[id]
	if b != nil && len(b.dead) > 0 && expired(b.kept, now) {
		b.dead = nil
	}
	return b
}

// Announce implements store.Instances.
func (s *Store) Announce(ctx context.Context, p store.AnnounceParams) error {
	s.mail.mu.Lock()
	defer s.mail.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	b := s.mail.boxes[p.ID]
	if b == nil {
		b = &box{}
		s.mail.boxes[p.ID] = b
	}
	b.body, b.open, b.present = slices.Clone(p.Body), true, s.now().add(p.TTL)
	return nil
}

// Withdraw implements store.Instances.
func (s *Store) Withdraw(ctx context.Context, id core.InstanceID) error {
	s.mail.mu.Lock()
	defer s.mail.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if b := s.mail.boxes[id]; b != nil {
		b.present = s.now()
	}
	return nil
}

// Instances implements store.Instances.
func (s *Store) Instances(context.Context) ([]store.Instance, error) {
	s.mail.mu.Lock()
	defer s.mail.mu.Unlock()
	now := s.now()
	var list []store.Instance
	for id := range s.mail.boxes {
		b := s.mail.box(id, now)
		one := store.Instance{ID: id, Present: !expired(b.present, now), HasInbox: b.open, Inbox: len(b.letters), DeadLetters: len(b.dead)}
		if one.Present {
			one.Body = slices.Clone(b.body)
		}
		for _, l := range b.letters {
			if l.deliveries > 0 {
				one.Pending++
			}
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b store.Instance) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// Post implements store.Mail.
func (s *Store) Post(ctx context.Context, p store.PostParams) (store.PostResult, error) {
	s.mail.mu.Lock()
	defer s.mail.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now := s.now()
	return s.mail.post(p.To, p.MaxMessages, p.Body, now, now), nil
}

// post puts a letter into an inbox. The caller holds the lock.
func (m *mail) post(to core.InstanceID, most int, body []byte, posted, now moment) store.PostResult {
	b := m.boxes[to]
	switch {
	case b == nil || expired(b.present, now):
		return store.InstanceAbsent
	case len(b.letters) >= most:
		return store.InboxFull
	}
	m.ids++
	b.letters = append(b.letters, &letter{id: strconv.FormatUint(m.ids, 10), body: slices.Clone(body), posted: posted})
	if b.arrived != nil {
		close(b.arrived)
		b.arrived = nil
	}
	return store.Accepted
}

// Fetch implements store.Mail.
func (s *Store) Fetch(ctx context.Context, p store.FetchParams) ([]store.InboxMessage, error) {
	over := time.NewTimer(p.Wait)
	defer over.Stop()
	for {
		letters, arrived := s.fetch(&p)
		if len(letters) > 0 {
			return letters, nil
		}
		select {
		case <-arrived:
		case <-over.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// fetch takes what is there, or says where it is to be waited for.
func (s *Store) fetch(p *store.FetchParams) ([]store.InboxMessage, <-chan struct{}) {
	s.mail.mu.Lock()
	defer s.mail.mu.Unlock()
	b := s.mail.boxes[p.Inbox]
	if b == nil {
		b = &box{}
		s.mail.boxes[p.Inbox] = b
	}
	letters := b.take(s.now(), p.Limit, func(l *letter) bool { return l.deliveries == 0 && !l.inherited })
	if b.arrived == nil {
		b.arrived = make(chan struct{})
	}
	return letters, b.arrived
}

// take hands over letters, which counts as a delivery.
func (b *box) take(now moment, limit int, wanted func(*letter) bool) []store.InboxMessage {
	var list []store.InboxMessage
	for _, l := range b.letters {
		if len(list) == limit {
			break
		}
		if wanted(l) {
			l.deliveries++
			l.fetched, l.inherited = now, false
			list = append(list, l.shown(now))
		}
	}
	return list
}

func (l *letter) shown(now moment) store.InboxMessage {
	return store.InboxMessage{ID: l.id, Body: slices.Clone(l.body), Age: now.since(l.posted), Deliveries: l.deliveries}
}

// Unsettled implements store.Mail.
func (s *Store) Pending(ctx context.Context, p store.FetchParams) ([]store.InboxMessage, error) {
	s.mail.mu.Lock()
	defer s.mail.mu.Unlock()
	b := s.mail.boxes[p.Inbox]
	if b == nil {
		return nil, ctx.Err()
	}
	now := s.now()
	return b.take(now, p.Limit, func(l *letter) bool { return (l.deliveries > 0 || l.inherited) && now.since(l.fetched) >= p.MinIdle }), ctx.Err()
}

// Settle implements store.Mail.
func (s *Store) Acknowledge(ctx context.Context, inbox core.InstanceID, ids ...string) error {
	s.mail.mu.Lock()
	defer s.mail.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if b := s.mail.boxes[inbox]; b != nil {
		b.drop(ids)
	}
	return nil
}

// drop takes letters out.
func (b *box) drop(ids []string) {
	b.letters = slices.DeleteFunc(b.letters, func(l *letter) bool { return slices.Contains(ids, l.id) })
}

// Condemn implements store.Mail.
func (s *Store) DeadLetter(ctx context.Context, p store.DeadLetterParams) (string, error) {
	s.mail.mu.Lock()
	defer s.mail.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	now := s.now()
	b := s.mail.box(p.Inbox, now)
	if b == nil {
		return "", nil
	}
	i := slices.IndexFunc(b.letters, func(l *letter) bool { return l.id == p.Message.ID })
	if i < 0 {
		return "", nil // it was condemned before
	}
	b.dead = append(b.dead, deadLetter{store.DeadLetter{InboxMessage: p.Message, Inbox: p.Inbox, Reason: p.Reason}, b.letters[i].posted})
	b.letters = slices.Delete(b.letters, i, i+1)
	b.kept = now.add(p.Keep)
	return p.Message.ID, nil
}

// Estate implements store.Estates.
func (s *Store) FetchAbandoned(ctx context.Context, id core.InstanceID, limit int) ([]store.InboxMessage, error) {
	s.mail.mu.Lock()
	defer s.mail.mu.Unlock()
	now := s.now()
	b := s.mail.boxes[id]
	if b == nil || !expired(b.present, now) {
		return nil, ctx.Err()
	}
	var list []store.InboxMessage
	for _, l := range b.letters[:min(limit, len(b.letters))] {
		if l.deliveries == 0 && !l.inherited {
			l.fetched, l.inherited = now, true
		}
		list = append(list, l.shown(now))
	}
	return list, ctx.Err()
}

// Bury implements store.Estates.
func (s *Store) RemoveInbox(ctx context.Context, id core.InstanceID) (bool, error) {
	s.mail.mu.Lock()
	defer s.mail.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	now := s.now()
	b := s.mail.box(id, now)
	switch {
	case b == nil:
	case !expired(b.present, now):
		return false, nil
	case len(b.dead) > 0:
		b.letters, b.open = nil, false
	default:
		delete(s.mail.boxes, id)
	}
	return true, nil
}
