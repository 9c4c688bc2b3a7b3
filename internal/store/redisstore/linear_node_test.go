package redisstore_test

import (
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// The part of the model in which the node speaks: what it lists, what it leaves out, and who it is.

// register begins a new life of the node.
func (b *ledger) register(q *request, a *answer, epoch core.Epoch) {
	var kept, orphans, strays []core.Lease
	now := a.now
	known := b.known()
	b.leases = slices.DeleteFunc(b.leases, func(s span) bool {
		crossed := q.activity.Lists && s.state == core.LeaseRevoked && !s.adopted() && s.omitted != 1
		return !lists(q, &s) && !crossed && (s.state == core.LeaseRevoked || s.adopted())
	})
	for i := range b.leases {
		s := &b.leases[i]
		switch {
		case !lists(q, s):
			if s.state != core.LeaseRevoked && !s.young(now) {
				orphans = append(orphans, s.seen(now))
			}
		case s.state == core.LeaseRevoked:
			s.omitted, s.expires = 1, expiry(now)
		case s.adopted():
			s.expires = expiry(now)
			strays = append(strays, s.seen(now))
		default:
			s.state, s.omitted, s.expires = core.LeaseRunning, 0, expiry(now)
			kept = append(kept, s.seen(now))
		}
	}
	strays = append(strays, b.adopt(q, known, now)...)
	a.known = b.epoch != 0
	b.epoch, b.newest = max(epoch, b.newest+1), max(epoch, b.newest+1)
	b.revision++
	b.max, b.heard, b.held, b.seq = q.max, now, 0, 0
	if q.returns && !q.activity.Lists {
		b.held = now + ms(linear.Attempt)
	}
	b.foreign = b.strange(q, now)
	a.epoch, a.revision, a.occupancy = b.epoch, b.revision, b.occupancy(now)
	a.lists = rolled("kept", kept) + rolled("orphans", orphans) + rolled("strays", strays)
}

// renew is a heartbeat.
func (b *ledger) renew(q *request, a *answer) {
	now := a.now
	silent := now-b.heard >= ms(linear.Presence)
	switch {
	case b.epoch == 0:
		a.verdict = store.UnknownNode
		return
	case q.epoch != 0 && q.epoch != b.epoch:
		a.verdict = store.StaleEpoch
		return
	case q.seq != 0 && q.seq < b.seq && !silent:
		a.verdict = store.TooLate
		return
	}
	if silent {
		b.seq = 0
	}
	again := q.seq != 0 && q.seq == b.seq
	b.seq = max(b.seq, q.seq)
	if q.activity.Lists {
		b.held = 0
	}

	known := b.known()
	for i := range b.leases {
		if s := &b.leases[i]; !q.activity.Lists && s.state == core.LeaseRevoked {
			s.keep(now)
		}
	}
	b.leases = slices.DeleteFunc(b.leases, func(s span) bool {
		unlisted := q.activity.Lists && !lists(q, &s) || !q.activity.Lists && !s.lives(now)
		// A list that was written before the job arrived says nothing about it.
		crossed := q.activity.Lists && s.state == core.LeaseRevoked && (s.omitted != 1 || again)
		return unlisted && !crossed && (s.state == core.LeaseRevoked || s.adopted())
	})
	var orphans, overdue, strays []core.Lease
	var cancels []store.ActiveJob
	for i := range b.leases {
		s := &b.leases[i]
		over := s.age(now) >= ms(linear.Attempt)
		switch listed := lists(q, s); {
		case s.state == core.LeaseRevoked:
			if listed {
				s.expires = expiry(now)
			}
			if listed || q.activity.Lists && (s.omitted != 0 || !s.early(now)) {
				s.omitted = 1
			}
			cancels = append(cancels, s.job())
			continue
		case s.adopted():
			if listed {
				s.expires = expiry(now)
				strays = append(strays, s.seen(now))
			}
			continue
		case listed:
			if s.state == core.LeaseParked {
				s.state = core.LeaseRunning
			}
			s.omitted, s.expires = 0, expiry(now)
		case s.state == core.LeaseParked:
			orphans = append(orphans, s.seen(now))
			continue
		case !q.activity.Lists:
			if over {
				s.keep(now)
			} else {
				s.expires = expiry(now)
			}
		case s.young(now):
			s.expires = expiry(now)
		case s.omitted == 0 || s.omitted == 1 && again:
			s.omitted, s.expires = 1, expiry(now)
		default:
			s.omitted = 2
			orphans = append(orphans, s.seen(now))
			continue
		}
		if over {
			overdue = append(overdue, s.seen(now))
		}
	}
	strays = append(strays, b.adopt(q, known, now)...)
	b.heard = now
	b.foreign = b.strange(q, now)
	a.verdict, a.epoch, a.revision, a.occupancy = store.OK, b.epoch, b.revision, b.occupancy(now)
	a.lists = rolled("orphans", orphans) + rolled("overdue", overdue) + rolled("strays", strays) + cancelled(cancels)
}

// lists reports whether the node says it has the job of a lease.
func lists(q *request, s *span) bool {
	return q.activity.Lists && slices.Contains(q.activity.Active, s.job())
}

func (b *ledger) known() map[store.ActiveJob]bool {
	known := make(map[store.ActiveJob]bool)
	for i := range b.leases {
		known[b.leases[i].job()] = true
	}
	return known
}

// adopt takes listed jobs of which nothing was known into it.
func (b *ledger) adopt(q *request, known map[store.ActiveJob]bool, now int64) []core.Lease {
	var strays []core.Lease
	for _, job := range q.activity.Active {
		if !known[job] {
			s := span{
				ref:   core.LeaseRef{Node: q.lease.Node, Job: job.Job, Attempt: job.Attempt},
				state: core.LeaseRunning, since: tickOf(now), expires: expiry(now),
			}
			b.put(s)
			strays = append(strays, s.seen(now))
		}
	}
	return strays
}

// strange is how much of what the node says it runs is not ours.
func (b *ledger) strange(q *request, now int64) int {
	if !q.activity.Counts {
		return 0
	}
	ours := len(q.activity.Active)
	if !q.activity.Lists {
		ours = b.living(now)
	}
	return max(0, q.activity.Current-ours)
}
