package memstore

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Heartbeat implements store.Nodes.
func (s *Store) Heartbeat(ctx context.Context, p store.HeartbeatParams) (store.HeartbeatResult, error) {
	n := s.locked(nil, p.Node)
	if n == nil {
		return store.HeartbeatResult{Verdict: store.UnknownNode}, nil
	}
	defer n.mu.Unlock()
	now := s.now()
	if n.silence(now) >= s.timing.Presence {
		n.seq = 0 // whoever speaks after so long may be another process, which counts anew
	}
	switch {
	case ctx.Err() != nil:
		return store.HeartbeatResult{Verdict: store.TooLate}, nil
	case p.Epoch != 0 && p.Epoch != n.now.Epoch:
		return store.HeartbeatResult{Verdict: store.StaleEpoch, NodeStatus: s.status(n, now)}, nil
	case p.Seq != 0 && p.Seq < n.seq:
		return store.HeartbeatResult{Verdict: store.TooLate, NodeStatus: s.status(n, now)}, nil
	}

	repeat := p.Again || p.Seq != 0 && p.Seq == n.seq
	n.seq = max(n.seq, p.Seq)
	if !p.Unheard {
		n.seen.Store(int64(now))
	}
	n.load = p.Load
	if p.Activity.Lists {
		n.onHold = false
	}
	s.declare(n, &p)

	pulse := store.HeartbeatResult{Verdict: store.OK, Young: s.newborn(now)}
	for i := len(n.leases) - 1; i >= 0; i-- {
		if s.beat(n, &n.leases[i], &p.Activity, &pulse, repeat, now) {
			n.remove(i)
		}
	}
	pulse.Strays = s.adopt(n, &p.Activity, now)
	s.setForeign(n, &p.Activity, now)
	pulse.NodeStatus = s.status(n, now)
	return pulse, nil
}

// declare takes over what the node now says of itself, if it differs.
func (s *Store) declare(n *node, p *store.HeartbeatParams) {
	if p.Declared == nil || p.Known.Version != n.now.Version || p.Known.Epoch != n.now.Epoch {
		return
	}
	next := *p.Declared
	next.ID, next.Drained, next.Disconnected = n.now.ID, n.now.Drained, n.now.Disconnected
	if !next.SameDeclaration(n.now) {
		s.change(n, &next)
	}
}

// beat judges one lease by one heartbeat and reports whether it is to be removed.
//
// A node that lists its jobs is believed about them: listed leases are renewed whatever the clock says, an
// unlisted one is an orphan at the second omission (the first may be a heartbeat written before the job
// arrived). A node that never lists has all its leases renewed until their attempts' deadlines.
func (s *Store) beat(n *node, l *lease, a *store.Activity, pulse *store.HeartbeatResult, repeat bool, now moment) (remove bool) {
	listed := a.Lists && lists(a.Active, l)
	late := now.since(l.since) >= s.timing.Attempt
	switch {
	case l.state == core.LeaseRevoked:
		// A job that may still be on its way is on no list. Then, here too, the first omission may be a heartbeat
		// written before it arrived. A job that was on a list and is not any more is gone.
		if !a.Lists && expired(l.expires, now) || a.Lists && !listed && l.omitted == once && !repeat {
			return true
		}
		if listed {
			s.renew(l, now)
		}
		if listed || a.Lists && (l.omitted != never || !s.early(l, now)) {
			l.omitted = once
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
		l.omitted = never
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
	case l.omitted == never, l.omitted == once && repeat: // a repeated heartbeat is not a second one
		l.omitted = once
		s.renew(l, now)
	default:
		l.omitted = orphan
		pulse.Orphans = append(pulse.Orphans, s.export(n, l))
		return false
	}
	if late {
		pulse.Overdue = append(pulse.Overdue, s.export(n, l))
	}
	return false
}
