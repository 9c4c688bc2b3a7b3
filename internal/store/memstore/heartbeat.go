package memstore

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Heartbeat implements store.Nodes.
func (s *Store) Heartbeat(ctx context.Context, p store.HeartbeatParams) (store.HeartbeatResult, error) {
	n := s.lockNode(nil, p.Node)
	if n == nil {
		return store.HeartbeatResult{Verdict: store.UnknownNode}, nil
	}
	defer n.mu.Unlock()
	now := s.now()
	wasSilent := n.silence(now) >= s.timing.Presence
	if wasSilent {
		n.seq = 0 // after so long it may be another process, which numbers its heartbeats from 1
	}
	switch {
	case ctx.Err() != nil:
		return store.HeartbeatResult{Verdict: store.TooLate}, nil
	case p.Epoch > n.current.Epoch:
		return store.HeartbeatResult{Verdict: store.UnknownNode}, nil
	case p.Epoch != 0 && p.Epoch != n.current.Epoch:
		return store.HeartbeatResult{Verdict: store.StaleEpoch, NodeStatus: s.status(n, now)}, nil
	case p.Seq != 0 && p.Seq < n.seq:
		return store.HeartbeatResult{Verdict: store.TooLate, NodeStatus: s.status(n, now)}, nil
	}

	repeat := p.Repeat || p.Seq != 0 && p.Seq == n.seq
	n.seq = max(n.seq, p.Seq)
	if !p.OnBehalf {
		n.seen.Store(int64(now))
	}
	n.load = p.Load
	if p.Activity.Lists {
		n.onHold = false
	}
	s.applyDeclaration(n, &p)

	result := store.HeartbeatResult{Verdict: store.OK, Young: s.isYoung(now)}
	for i := len(n.leases) - 1; i >= 0; i-- {
		if s.reconcileLease(n, &n.leases[i], &p.Activity, &result, repeat, now) {
			n.remove(i)
		}
	}
	result.Strays = s.adoptStrays(n, &p.Activity, now)
	s.updateForeign(n, &p.Activity, now)
	result.NodeStatus, result.WasSilent = s.status(n, now), wasSilent && !p.OnBehalf
	if result.WasSilent {
		s.watchers.publish(store.Change{Node: p.Node, Now: result.NodeStatus}) // they may not have it in view
	}
	return result, nil
}

// KeepAlive implements store.Nodes.
func (s *Store) KeepAlive(ctx context.Context, p store.KeepAliveParams) (store.Verdict, error) {
	n := s.lockNode(nil, p.Node)
	if n == nil {
		return store.UnknownNode, nil
	}
	defer n.mu.Unlock()
	now := s.now()
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case p.Epoch > n.current.Epoch:
		return store.UnknownNode, nil
	case p.Epoch != n.current.Epoch:
		return store.StaleEpoch, nil
	}
	wasSilent := n.silence(now) >= s.timing.Presence
	n.seen.Store(int64(now))
	for i := range n.leases {
		l := &n.leases[i]
		revoked := l.state == core.LeaseRevoked
		switch {
		case l.state == core.LeaseParked, l.omitted == orphan && !revoked: // it takes no slot, or the node does not have the job
		case !p.Lists && (revoked || now.since(l.reservedAt) >= s.timing.Attempt):
			s.extendUnlisted(l, now)
		default:
			s.renewLease(l, now)
		}
	}
	if wasSilent {
		s.watchers.publish(store.Change{Node: p.Node, Now: s.status(n, now)})
	}
	return store.OK, nil
}

// applyDeclaration replaces the node by what it declares now, if that differs.
func (s *Store) applyDeclaration(n *node, p *store.HeartbeatParams) {
	if p.Declared == nil || p.Known.Version != n.current.Version || p.Known.Epoch != n.current.Epoch {
		return
	}
	next := *p.Declared
	next.ID, next.Drained, next.Disconnected, next.SilentSince = n.current.ID, n.current.Drained, n.current.Disconnected,
		n.current.SilentSince
	next.Admission = n.current.Admission
	if !next.SameDeclaration(n.current) {
		s.publishChange(n, &next)
	}
}

// reconcileLease compares one lease with one heartbeat and reports whether the lease is to be removed.
//
// The list of a node that sends one is authoritative: listed leases are renewed whatever the clock says, and an omitted one is an
// orphan at the second omission (the first may come from a heartbeat that was written before the job arrived). A node that never
// lists has all its leases renewed for as long as it may be working on their jobs, also when the jobs have ended or moved.
func (s *Store) reconcileLease(n *node, l *lease, a *store.Activity, result *store.HeartbeatResult, repeat bool, now moment) (remove bool) {
	listed := a.Lists && isListed(a.Active, l)
	overdue := now.since(l.reservedAt) >= s.timing.Attempt
	switch {
	case l.state == core.LeaseRevoked:
		// A job that is still on its way is on no list. Here too, the first omission may come from a heartbeat that was written
		// before the job arrived. A job that was on a list and is omitted now has ended on the node.
		if a.Lists && !listed && l.omitted == once && !repeat {
			return true
		}
		// A slot that this heartbeat does not free must stay taken until the next one, because the node is grantable until then.
		if listed || a.Lists && !repeat {
			s.renewLease(l, now)
		} else if s.extendUnlisted(l, now); expired(l.expires, now) {
			return true
		}
		if listed || a.Lists && (l.omitted != never || !s.inTransit(l, now)) {
			l.omitted = once
		}
		result.Cancels = append(result.Cancels, store.ActiveJob{Job: l.job, Attempt: int(l.attempt)})
		return false
	case l.adopted():
		if listed {
			s.renewLease(l, now)
		}
		return a.Lists && !listed || expired(l.expires, now)
	case n.current.Health == core.HealthOffline:
		result.Orphans = append(result.Orphans, s.exportLease(n, l))
		return false
	case listed:
		l.omitted = never
		if l.state == core.LeaseParked {
			l.state = core.LeaseRunning
		}
		s.renewLease(l, now)
	case l.state == core.LeaseParked:
		result.Orphans = append(result.Orphans, s.exportLease(n, l))
		return false
	case !a.Lists:
		if overdue {
			s.extendUnlisted(l, now)
		} else {
			s.renewLease(l, now)
		}
	case s.isYoungReservation(l, now):
		s.renewLease(l, now)
	case l.omitted == never, l.omitted == once && repeat: // a repeated heartbeat is not a second one
		l.omitted = once
		s.renewLease(l, now)
	default:
		l.omitted = orphan
		result.Orphans = append(result.Orphans, s.exportLease(n, l))
		return false
	}
	if overdue {
		result.Overdue = append(result.Overdue, s.exportLease(n, l))
	}
	return false
}

// extendUnlisted renews a lease about which the node says nothing for as long as it may be working on the job: the job is
// delivered within ReservedTTL after the reservation, and the node then has the time of an attempt.
func (s *Store) extendUnlisted(l *lease, now moment) {
	until := l.reservedAt.add(s.timing.ReservedTTL + s.timing.Attempt)
	l.expires = max(l.expires, min(now.add(s.timing.Presence), until))
}
