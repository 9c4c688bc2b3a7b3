package memstore

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Heartbeat implements store.Nodes.
func (s *Store) Heartbeat(ctx context.Context, p store.HeartbeatParams) (store.Pulse, error) {
	n := s.locked(nil, p.Node)
	if n == nil {
		return store.Pulse{Verdict: store.UnknownNode}, nil
	}
	defer n.mu.Unlock()
	now := s.now()
	if n.silence(now) >= s.timing.Presence {
		n.seq = 0 // whoever speaks after so long may be another process, which counts anew
	}
	switch {
	case ctx.Err() != nil:
		return store.Pulse{Verdict: store.TooLate}, nil
	case p.Epoch != 0 && p.Epoch != n.now.Epoch:
		return store.Pulse{Verdict: store.StaleEpoch, NodeStatus: s.status(n, now)}, nil
	case p.Seq != 0 && p.Seq < n.seq:
		return store.Pulse{Verdict: store.TooLate, NodeStatus: s.status(n, now)}, nil
	}

	n.seq = max(n.seq, p.Seq)
	number := n.number(p.Seq)
	n.seen.Store(int64(now))
	n.load = p.Load
	if p.Activity.Lists {
		n.onHold = false
	}
	s.declare(n, &p)

	pulse := store.Pulse{Verdict: store.OK, Young: s.newborn(now)}
	for i := len(n.leases) - 1; i >= 0; i-- {
		if s.beat(n, &n.leases[i], &p.Activity, &pulse, number, now) {
			n.remove(i)
		}
	}
	pulse.Strays = s.adopt(n, &p.Activity, now)
	s.setForeign(n, &p.Activity, now)
	pulse.NodeStatus = s.status(n, now)
	return pulse, nil
}

// number tells one heartbeat from the next, also when the node does not.
func (n *node) number(seq uint64) uint64 {
	if seq != 0 {
		return seq
	}
	n.beats++
	return n.beats | 1<<63
}

// declare takes over what the node now says of itself, if it differs.
func (s *Store) declare(n *node, p *store.HeartbeatParams) {
	var next core.Node
	switch {
	case p.Declared != nil && p.Base == n.now.Version:
		next = *p.Declared
		next.ID, next.Drained = n.now.ID, n.now.Drained
		if next.SameAs(n.now) {
			return
		}
	case p.Health != 0 && p.Health != n.now.Health:
		next = *n.now
		next.Health = p.Health
	default:
		return
	}
	s.change(n, &next)
}

// beat judges one lease by one heartbeat and reports whether it is to be removed.
//
// A node that lists its jobs is believed about them: listed leases are renewed whatever the clock says, an
// unlisted one is an orphan at the second omission (the first may be a heartbeat written before the job
// arrived). A node that never lists has all its leases renewed until their attempts' deadlines.
func (s *Store) beat(n *node, l *lease, a *store.Activity, pulse *store.Pulse, number uint64, now moment) (remove bool) {
	listed := a.Lists && lists(a.Active, l)
	late := expired(l.deadline, now)
	switch {
	case l.state == core.LeaseRevoked:
		if a.Lists && !listed || !a.Lists && expired(l.expires, now) {
			return true
		}
		if listed {
			s.renew(l, now)
		}
		pulse.Cancels = append(pulse.Cancels, store.ActiveJob{Job: l.job, Attempt: int(l.attempt)})
		return false
	case l.stray():
		if listed {
			s.renew(l, now)
		}
		return a.Lists && !listed || expired(l.expires, now)
	case n.now.Health == core.HealthOffline:
		pulse.Orphans = append(pulse.Orphans, s.export(n, l))
		return false
	case listed:
		l.omitted = 0
		if l.state == core.LeaseParked {
			l.state = core.LeaseRunning
		}
		s.renew(l, now)
	case l.state == core.LeaseParked:
		pulse.Orphans = append(pulse.Orphans, s.export(n, l))
		return false
	case !a.Lists:
		if !late {
			s.renew(l, now)
		}
	case s.young(l, now):
		s.renew(l, now)
	case l.omitted == 0, l.omitted == number: // a repeated heartbeat is not a second one
		l.omitted = number
		s.renew(l, now)
	default:
		pulse.Orphans = append(pulse.Orphans, s.export(n, l))
		return false
	}
	if late {
		pulse.Overdue = append(pulse.Overdue, s.export(n, l))
	}
	return false
}
