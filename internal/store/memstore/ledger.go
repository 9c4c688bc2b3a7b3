package memstore

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Reserve implements store.Ledger.
func (s *Store) Reserve(ctx context.Context, p store.ReserveParams) (store.Reservation, error) {
	n := s.lockNode(p.Handle, p.Lease.Node)
	if n == nil {
		return store.Reservation{Verdict: store.UnknownNode}, nil
	}
	defer n.mu.Unlock()
	if ctx.Err() != nil {
		return store.Reservation{Verdict: store.TooLate}, nil
	}

	now := s.now()
	taken, own, exists := int(n.foreign), -1, false
	for i := range n.leases {
		l := &n.leases[i]
		live := l.takesSlot(now)
		if live {
			taken++
		}
		if l.matches(&p.Lease) {
			own, exists = i, live
		}
	}
	slots, closed := int(n.slots), s.isClosed(n, now)
	if p.Probe {
		slots, closed = max(0, n.current.MaxJobs), s.isClosedToProbes(n, now)
	}
	answer := store.Reservation{Free: max(0, slots-taken)}
	switch {
	case exists:
		answer.Verdict = store.OK
	case p.Epoch != n.epoch:
		answer.Verdict = store.StaleEpoch
	case p.Revision != n.revision:
		answer.Verdict = store.StaleRevision
	case closed:
		answer.Verdict = store.NotReady
	case slots <= 0 && n.current.MaxJobs <= 0:
		answer.Verdict = store.NoCapacity
	case taken >= slots:
		answer.Verdict = store.Full
	default:
		answer.Verdict = store.OK
		answer.Free--
		granted := lease{
			job:        p.Lease.Job,
			token:      p.Lease.Token,
			reservedAt: now,
			expires:    now.add(s.timing.Presence),
			attempt:    int32(p.Lease.Attempt),
			state:      core.LeaseReserved,
		}
		if own >= 0 {
			n.leases[own] = granted // it had expired
		} else {
			n.leases = append(n.leases, granted)
		}
	}
	return answer, nil
}

// Commit implements store.Ledger.
func (s *Store) Commit(ctx context.Context, ref core.LeaseRef) (bool, error) {
	n := s.lockNode(nil, ref.Node)
	if n == nil {
		return false, nil
	}
	defer n.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	now := s.now()
	i := n.find(&ref)
	if i < 0 || !n.leases[i].takesSlot(now) || n.leases[i].state == core.LeaseRevoked {
		return false, nil
	}
	l := &n.leases[i]
	l.state = core.LeaseRunning
	s.renewLease(l, now)
	return true, nil
}

// Release implements store.Ledger.
func (s *Store) Release(ctx context.Context, p store.ReleaseParams) error {
	if err := s.release(ctx, &p); err != nil {
		return err
	}
	p.Finish() // no lock is held
	return nil
}

func (s *Store) release(ctx context.Context, p *store.ReleaseParams) error {
	n := s.lockNode(p.Handle, p.Lease.Node)
	if n == nil {
		return nil
	}
	defer n.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if i := n.find(&p.Lease); i >= 0 {
		if p.Park {
			n.leases[i].state = core.LeaseParked
			n.leases[i].expires = s.now()
		} else {
			n.remove(i)
		}
	}
	return nil
}

// Revoke implements store.Ledger.
func (s *Store) Revoke(ctx context.Context, ref core.LeaseRef) error {
	n := s.lockNode(nil, ref.Node)
	if n == nil {
		return nil
	}
	defer n.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if i := n.find(&ref); i >= 0 {
		l := &n.leases[i]
		if l.state == core.LeaseParked {
			n.remove(i)
			return nil
		}
		switch {
		case l.adopted(), l.state != core.LeaseRevoked && l.omitted != never:
			l.omitted = once
		case l.state == core.LeaseRunning:
			l.omitted = arrived
		}
		l.state = core.LeaseRevoked
	}
	return nil
}

// Leases implements store.LeaseReader.
func (s *Store) Leases(_ context.Context, refs ...core.LeaseRef) ([]core.Lease, error) {
	leases := make([]core.Lease, len(refs))
	for i := range refs {
		n := s.lockNode(nil, refs[i].Node)
		if n == nil {
			continue
		}
		if at := n.find(&refs[i]); at >= 0 {
			leases[i] = s.exportLease(n, &n.leases[at])
		}
		n.mu.Unlock()
	}
	return leases, nil
}

// Probe implements store.LeaseReader.
func (s *Store) Probe(_ context.Context, nodes []core.NodeID, into []store.Occupancy) error {
	now := s.now()
	for i, id := range nodes {
		into[i] = store.Occupancy{}
		if n := s.lockNode(nil, id); n != nil {
			into[i] = s.occupancy(n, now)
			n.mu.Unlock()
		}
	}
	return nil
}

// Orphans implements store.LeaseReader.
func (s *Store) Orphans(_ context.Context, nodes ...core.NodeID) ([]core.Lease, error) {
	var leases []core.Lease
	for _, id := range nodes {
		n := s.lockNode(nil, id)
		if n == nil {
			continue
		}
		for i := range n.leases {
			leases = append(leases, s.exportLease(n, &n.leases[i]))
		}
		n.mu.Unlock()
	}
	return leases, nil
}
