package memstore

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Register implements store.Nodes.
func (s *Store) Register(ctx context.Context, p store.RegisterParams) (store.Registration, error) {
	n, known, err := s.lockOrCreate(ctx, p.Node.ID)
	if err != nil {
		return store.Registration{}, err
	}
	defer n.mu.Unlock()

	now := s.now()
	isOther := known && (n.current.Tenant != p.Node.Tenant || p.RequireSecret && n.current.SecretHash != p.Node.SecretHash)
	if isOther && n.current.Health != core.HealthOffline && n.silence(now) < s.timing.Presence {
		return store.Registration{}, store.ErrNameTaken
	}
	next := p.Node
	next.Epoch = core.Epoch(s.time(now).UnixMicro())
	next.Revision, next.Version, next.Drained, next.Disconnected, next.SilentSince, next.Admission = 1, 1, p.Drained, false, 0,
		core.Admission{}
	if known {
		next.Epoch = max(n.current.Epoch+1, next.Epoch)
		next.Revision, next.Version = n.current.Revision+1, n.current.Version+1
		next.Drained, next.Admission = n.current.Drained, n.current.Admission
	}
	n.setCurrent(&next)
	n.load = p.Load
	n.seen.Store(int64(now))
	n.seq = 0
	n.connection = p.Connection
	n.onHold = p.Returning && !p.Activity.Lists
	n.heldUntil = now.add(s.timing.Attempt)
	n.marks = nil

	r := store.Registration{Known: known, Young: s.isYoung(now)}
	if isOther { // the jobs of the node that had the name are not its jobs
		r.Cancels, p.Activity.Active = p.Activity.Active, nil
	}
	s.reconcileRegistration(n, &p.Activity, isOther, &r, now)
	r.Strays = s.adoptStrays(n, &p.Activity, now)
	s.updateForeign(n, &p.Activity, now)
	r.NodeStatus = s.status(n, now)
	s.watchers.publish(store.Change{Node: next.ID, Now: r.NodeStatus})
	return r, nil
}

// lockOrCreate finds or creates a node and returns it locked, unless the context has ended by then.
func (s *Store) lockOrCreate(ctx context.Context, id core.NodeID) (n *node, known bool, err error) {
	shard := &s.nodes[s.shardOf(string(id))]
	for {
		shard.Lock()
		n, known = shard.nodes[id]
		if err := ctx.Err(); err != nil {
			shard.Unlock()
			return nil, false, err
		}
		if !known {
			n = newNode()
			n.mu.Lock()
			shard.nodes[id] = n
			shard.Unlock()
			return n, false, nil
		}
		shard.Unlock()
		n.mu.Lock()
		err := ctx.Err()
		if err == nil && !n.removed {
			return n, true, nil
		}
		n.mu.Unlock()
		if err != nil {
			return nil, false, err
		}
	}
}

// reconcileRegistration compares the leases of the earlier epoch with the node's list: listed jobs are kept, the others are orphans.
// The leases of another node that had the name are revoked: a later registration could list them.
func (s *Store) reconcileRegistration(n *node, a *store.Activity, isOther bool, r *store.Registration, now moment) {
	for i := len(n.leases) - 1; i >= 0; i-- {
		l := &n.leases[i]
		listed := a.Lists && isListed(a.Active, l)
		switch {
		case listed && (l.state == core.LeaseRevoked || l.adopted()):
			if l.state == core.LeaseRevoked {
				l.omitted = once
				r.Cancels = append(r.Cancels, store.ActiveJob{Job: l.job, Attempt: int(l.attempt)})
			}
			s.renewLease(l, now)
		case listed:
			l.state, l.omitted = core.LeaseRunning, never
			s.renewLease(l, now)
			r.Kept = append(r.Kept, s.exportLease(n, l))
		case l.state == core.LeaseRevoked && a.Lists && !l.adopted() && l.omitted != once:
			// The list may have been written before the job arrived. Heartbeats decide, because a repeated one is recognised.
			s.renewLease(l, now)
		case l.state == core.LeaseRevoked, l.adopted():
			n.remove(i)
		case isOther:
			r.Orphans = append(r.Orphans, s.exportLease(n, l))
			l.state, l.omitted = core.LeaseRevoked, once
			s.renewLease(l, now)
		case s.isYoungReservation(l, now):
			// The job may be on its way to the node in its new epoch: the acknowledgement, or its absence, decides.
			s.renewLease(l, now)
		default:
			r.Orphans = append(r.Orphans, s.exportLease(n, l))
		}
	}
}

func (s *Store) renewLease(l *lease, now moment) { l.expires = now.add(s.timing.Presence) }

func isListed(active []store.ActiveJob, l *lease) bool {
	for i := range active {
		if l.isFor(&active[i]) {
			return true
		}
	}
	return false
}

// adoptStrays creates leases for jobs that the node lists and that have none: their slots are taken in any case. It returns every
// adopted lease, for the caller to compare with the jobs' records.
func (s *Store) adoptStrays(n *node, a *store.Activity, now moment) []core.Lease {
	var strays []core.Lease
	for i := range a.Active {
		job := &a.Active[i]
		known := false
		for j := range n.leases {
			l := &n.leases[j]
			if !l.isFor(job) {
				continue
			}
			known = true
			if l.adopted() && l.state != core.LeaseRevoked {
				strays = append(strays, s.exportLease(n, l))
			}
		}
		if known {
			continue
		}
		n.leases = append(n.leases, lease{
			job:        job.Job,
			attempt:    int32(job.Attempt),
			state:      core.LeaseRunning,
			reservedAt: now,
			expires:    now.add(s.timing.Presence),
		})
		strays = append(strays, s.exportLease(n, &n.leases[len(n.leases)-1]))
	}
	return strays
}

// Drain implements store.Nodes.
func (s *Store) Drain(ctx context.Context, p store.DrainParams) (*core.Node, error) {
	n, err := s.lockRegistered(ctx, p.Node)
	if err != nil {
		return nil, err
	}
	defer n.mu.Unlock()
	if n.current.Drained != p.Drained {
		next := *n.current
		next.Drained = p.Drained
		s.publishChange(n, &next)
	}
	return n.current, nil
}

// Connect implements store.Nodes.
func (s *Store) Connect(ctx context.Context, p store.ConnectParams) (*core.Node, error) {
	n, err := s.lockRegistered(ctx, p.Node)
	if err != nil {
		return nil, err
	}
	defer n.mu.Unlock()
	if p.Epoch != n.current.Epoch || p.Connection < n.connection && (p.Lost || p.Connection != 0) {
		return n.current, nil
	}
	n.connection = p.Connection
	next := *n.current
	next.Disconnected = p.Lost
	switch {
	case !p.Lost || p.SilentFor == 0:
		next.SilentSince = 0
	case next.SilentSince == 0:
		next.SilentSince = s.time(s.now()).Add(-p.SilentFor).UnixMilli()
	}
	if next.Disconnected != n.current.Disconnected || next.SilentSince != n.current.SilentSince {
		s.publishChange(n, &next)
	}
	return n.current, nil
}

// publishChange replaces the node by its next version and notifies the watchers.
func (s *Store) publishChange(n *node, next *core.Node) {
	next.Supersede(n.current)
	n.setCurrent(next)
	s.watchers.publish(store.Change{Node: next.ID, Now: s.status(n, s.now())})
}

// Remove implements store.Nodes.
func (s *Store) Remove(ctx context.Context, p store.RemoveParams) (bool, error) {
	shard := &s.nodes[s.shardOf(string(p.Node))]
	shard.Lock()
	defer shard.Unlock() // until the change is published: a registration that follows must be published later
	if err := ctx.Err(); err != nil {
		return false, err
	}
	n := shard.nodes[p.Node]
	if n == nil {
		return true, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.silence(s.now()) < p.SilentFor || p.Epoch != 0 && n.current.Epoch != p.Epoch {
		return false, nil
	}
	n.removed = true
	delete(shard.nodes, p.Node)
	s.watchers.publish(store.Change{Node: p.Node, Removed: true})
	return true, nil
}

// Nodes implements store.NodeReader.
func (s *Store) Nodes(_ context.Context, ids ...core.NodeID) ([]store.NodeStatus, error) {
	var all []store.NodeStatus
	now := s.now()
	for _, id := range ids {
		if n := s.lockNode(nil, id); n != nil {
			all = append(all, s.status(n, now))
			n.mu.Unlock()
		}
	}
	if len(ids) > 0 {
		return all, nil
	}
	s.eachNode(func(n *node) {
		n.mu.Lock()
		all = append(all, s.status(n, now))
		n.mu.Unlock()
	})
	return all, nil
}

// Overdue implements store.NodeReader.
func (s *Store) Overdue(_ context.Context, after time.Duration) (store.Overdue, error) {
	var found store.Overdue
	now := s.now()
	s.eachNode(func(n *node) {
		n.mu.Lock()
		seen := store.LastSeen{Node: n.current.ID, Age: n.silence(now)}
		n.mu.Unlock()
		found.Registered++
		if seen.Age >= after {
			found.Nodes = append(found.Nodes, seen)
		} else {
			found.Oldest = max(found.Oldest, seen.Age)
		}
	})
	return found, nil
}

// Digests implements store.NodeReader.
func (s *Store) Digests(context.Context) ([]store.NodeDigest, error) {
	var all []store.NodeDigest
	now := s.now()
	s.eachNode(func(n *node) {
		n.mu.Lock()
		status := s.status(n, now)
		n.mu.Unlock()
		all = append(all, store.NodeDigest{
			LastSeen: store.LastSeen{Node: status.Node.ID, Age: status.Age}, Epoch: status.Node.Epoch, Version: status.Node.Version,
			Load: status.Load, InFlight: status.InFlight(), Slots: status.Slots(),
		})
	})
	return all, nil
}
