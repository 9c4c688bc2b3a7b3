package memstore

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Register implements store.Nodes.
func (s *Store) Register(ctx context.Context, p store.RegisterParams) (store.Registration, error) {
	n, known, err := s.claim(ctx, p.Node.ID)
	if err != nil {
		return store.Registration{}, err
	}
	defer n.mu.Unlock()

	now := s.now()
	next := p.Node
	next.Epoch = core.Epoch(s.time(now).UnixMicro())
	next.Revision, next.Version, next.Drained, next.Disconnected = 1, 1, false, false
	if known {
		next.Epoch = max(n.now.Epoch+1, next.Epoch)
		next.Revision, next.Version = n.now.Revision+1, n.now.Version+1
		next.Drained = n.now.Drained
	}
	n.declare(&next)
	n.load = p.Load
	n.seen.Store(int64(now))
	n.seq = 0
	n.conn = p.Connection
	n.onHold = p.Returning && !p.Activity.Lists
	n.held = now.add(s.timing.Attempt)

	r := store.Registration{Known: known, Young: s.newborn(now)}
	s.beginLife(n, &p.Activity, &r, now)
	r.Strays = s.adopt(n, &p.Activity, now)
	s.setForeign(n, &p.Activity, now)
	r.NodeStatus = s.status(n, now)
	s.watchers.publish(store.Change{Node: next.ID, Now: r.NodeStatus})
	return r, nil
}

// claim finds or makes a node and returns it locked, unless the context has ended by then.
func (s *Store) claim(ctx context.Context, id core.NodeID) (n *node, known bool, err error) {
	shard := &s.nodes[s.shardOf(string(id))]
	for {
		shard.Lock()
		n, known = shard.m[id]
		if err := ctx.Err(); err != nil {
			shard.Unlock()
			return nil, false, err
		}
		if !known {
			n = newNode()
			n.mu.Lock()
			shard.m[id] = n
			shard.Unlock()
			return n, false, nil
		}
		shard.Unlock()
		n.mu.Lock()
		err := ctx.Err()
		if err == nil && !n.gone {
			return n, true, nil
		}
		n.mu.Unlock()
		if err != nil {
			return nil, false, err
		}
	}
}

// beginLife sorts the leases of the life before: what the node lists it keeps, what it does not list it
// has lost.
func (s *Store) beginLife(n *node, a *store.Activity, r *store.Registration, now moment) {
	for i := len(n.leases) - 1; i >= 0; i-- {
		l := &n.leases[i]
		listed := a.Lists && lists(a.Active, l)
		switch {
		case listed && (l.state == core.LeaseRevoked || l.stray()):
			if l.state == core.LeaseRevoked {
				l.omitted = once
			}
			s.renew(l, now)
		case listed:
			l.state, l.omitted = core.LeaseRunning, never
			s.renew(l, now)
			r.Kept = append(r.Kept, s.export(n, l))
		case l.state == core.LeaseRevoked && a.Lists && !l.stray() && l.omitted != once:
			// The list may have been written before the job arrived. That is left to heartbeats, which can be told apart.
		case l.state == core.LeaseRevoked, l.stray():
			n.remove(i)
		case s.young(l, now):
			// It may be on its way to the node in its new life: its ACK, or the lack of one, will tell.
		default:
			r.Orphans = append(r.Orphans, s.export(n, l))
		}
	}
}

func (s *Store) renew(l *lease, now moment) { l.expires = now.add(s.timing.Presence) }

func lists(active []store.ActiveJob, l *lease) bool {
	for i := range active {
		if l.isOf(&active[i]) {
			return true
		}
	}
	return false
}

// adopt makes leases of jobs that the node lists and nobody reserved: their slots are taken, whoever is
// right about them. It returns every adopted lease, to be judged by the jobs' records.
func (s *Store) adopt(n *node, a *store.Activity, now moment) []core.Lease {
	var strays []core.Lease
	for i := range a.Active {
		job := &a.Active[i]
		known := false
		for j := range n.leases {
			l := &n.leases[j]
			if !l.isOf(job) {
				continue
			}
			known = true
			if l.stray() && l.state != core.LeaseRevoked {
				strays = append(strays, s.export(n, l))
			}
		}
		if known {
			continue
		}
		n.leases = append(n.leases, lease{
			job:     job.Job,
			attempt: int32(job.Attempt),
			state:   core.LeaseRunning,
			since:   now,
			expires: now.add(s.timing.Presence),
		})
		strays = append(strays, s.export(n, &n.leases[len(n.leases)-1]))
	}
	return strays
}

// Drain implements store.Nodes.
func (s *Store) Drain(ctx context.Context, p store.DrainParams) (*core.Node, error) {
	n := s.locked(nil, p.Node)
	if n == nil {
		return nil, store.ErrNoNode
	}
	defer n.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if n.now.Drained != p.Drained {
		next := *n.now
		next.Drained = p.Drained
		s.change(n, &next)
	}
	return n.now, nil
}

// Connect implements store.Nodes.
func (s *Store) Connect(ctx context.Context, p store.ConnectParams) (*core.Node, error) {
	n := s.locked(nil, p.Node)
	if n == nil {
		return nil, store.ErrNoNode
	}
	defer n.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if p.Epoch != n.now.Epoch || p.Connection < n.conn && (p.Lost || p.Connection != 0) {
		return n.now, nil
	}
	n.conn = p.Connection
	if n.now.Disconnected != p.Lost {
		next := *n.now
		next.Disconnected = p.Lost
		s.change(n, &next)
	}
	return n.now, nil
}

// change takes over what a node declares anew and tells whoever watches.
func (s *Store) change(n *node, next *core.Node) {
	next.Supersede(n.now)
	n.declare(next)
	s.watchers.publish(store.Change{Node: next.ID, Now: s.status(n, s.now())})
}

// Remove implements store.Nodes.
func (s *Store) Remove(ctx context.Context, p store.RemoveParams) error {
	shard := &s.nodes[s.shardOf(string(p.Node))]
	shard.Lock()
	defer shard.Unlock() // until it is told: a registration that follows must be told later
	if err := ctx.Err(); err != nil {
		return err
	}
	n := shard.m[p.Node]
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.silence(s.now()) < p.SilentFor {
		return nil
	}
	n.gone = true
	delete(shard.m, p.Node)
	s.watchers.publish(store.Change{Node: p.Node, Removed: true})
	return nil
}

// Node implements store.Census.
func (s *Store) Node(_ context.Context, id core.NodeID) (store.NodeStatus, error) {
	n := s.locked(nil, id)
	if n == nil {
		return store.NodeStatus{}, store.ErrNoNode
	}
	defer n.mu.Unlock()
	return s.status(n, s.now()), nil
}

// Nodes implements store.Census.
func (s *Store) Nodes(_ context.Context, ids ...core.NodeID) ([]store.NodeStatus, error) {
	var all []store.NodeStatus
	now := s.now()
	for _, id := range ids {
		if n := s.locked(nil, id); n != nil {
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

// Sightings implements store.Census.
func (s *Store) LastSeen(context.Context) ([]store.LastSeen, error) {
	var all []store.LastSeen
	now := s.now()
	s.eachNode(func(n *node) {
		n.mu.Lock()
		all = append(all, store.LastSeen{Node: n.now.ID, Age: n.silence(now)})
		n.mu.Unlock()
	})
	return all, nil
}

// Mark implements store.Marks.
func (s *Store) Mark(ctx context.Context, m store.Mark) error {
	n := s.locked(nil, m.Node)
	if n == nil {
		return store.ErrNoNode
	}
	defer n.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	now := s.now()
	if n.marks == nil {
		n.marks = make(map[string]moment)
	}
	for service, until := range n.marks {
		if expired(until, now) {
			delete(n.marks, service)
		}
	}
	n.marks[m.Service] = now.add(m.For)
	s.watchers.publish(store.Change{Node: m.Node, Mark: &m})
	return nil
}

// Marked implements store.Marks.
func (s *Store) Marked(_ context.Context, nodes ...core.NodeID) ([]store.Mark, error) {
	var marks []store.Mark
	for _, id := range nodes {
		n := s.locked(nil, id)
		if n == nil {
			continue
		}
		now := s.now()
		for service, until := range n.marks {
			if !expired(until, now) {
				marks = append(marks, store.Mark{Node: id, Service: service, For: until.since(now)})
			}
		}
		n.mu.Unlock()
	}
	return marks, nil
}
