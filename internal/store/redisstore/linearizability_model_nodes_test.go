package redisstore_test

import (
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// The part of the model for the calls of nodes: registrations and heartbeats.

// register starts a new epoch of the node.
func (m *modelLedger) register(q *request, a *answer, epoch core.Epoch) {
	var kept, orphans, strays []core.Lease
	now := a.now
	known := m.leasedJobs()
	m.leases = slices.DeleteFunc(m.leases, func(s modelLease) bool {
		mayBeInTransit := q.activity.Lists && s.state == core.LeaseRevoked && !s.isAdopted() && s.omitted != 1
		return !isListed(q, &s) && !mayBeInTransit && (s.state == core.LeaseRevoked || s.isAdopted())
	})
	for i := range m.leases {
		s := &m.leases[i]
		switch {
		case !isListed(q, s):
			if s.state == core.LeaseRevoked || s.isYoung(now) {
				s.expires = expiry(now)
			} else {
				orphans = append(orphans, s.export(now))
			}
		case s.state == core.LeaseRevoked:
			s.omitted, s.expires = 1, expiry(now)
		case s.isAdopted():
			s.expires = expiry(now)
			strays = append(strays, s.export(now))
		default:
			s.state, s.omitted, s.expires = core.LeaseRunning, 0, expiry(now)
			kept = append(kept, s.export(now))
		}
	}
	strays = append(strays, m.adoptStrays(q, known, now)...)
	a.known = m.epoch != 0
	m.epoch, m.maxEpoch = max(epoch, m.maxEpoch+1), max(epoch, m.maxEpoch+1)
	m.revision++
	m.max, m.lastSeen, m.heldUntil, m.seq = q.max, now, 0, 0
	if q.returns && !q.activity.Lists {
		m.heldUntil = now + ms(linearTiming.Attempt)
	}
	m.foreign = m.foreignWork(q, now)
	a.epoch, a.revision, a.occupancy = m.epoch, m.revision, m.occupancy(now)
	a.lists = formatLeases("kept", kept) + formatLeases("orphans", orphans) + formatLeases("strays", strays)
}

// admit decides how many slots may be granted. Registrations and heartbeats keep the decision.
func (m *modelLedger) admit(q *request, a *answer) {
	if m.epoch == 0 {
		a.verdict = store.UnknownNode
		return
	}
	if a.ok = q.fence >= m.fence; a.ok {
		m.limit, m.fence = q.limit, q.fence
	}
	a.epoch, a.revision, a.limit = m.epoch, m.revision, m.limit
}

// isFreed reports whether a heartbeat removes a lease.
func (m *modelLedger) isFreed(q *request, s modelLease, repeated bool, now int64) bool {
	switch {
	case s.state == core.LeaseRevoked && q.activity.Lists && !repeated:
		return !isListed(q, &s) && s.omitted == 1 // the first omission may come from a list that was written before the job arrived
	case s.state == core.LeaseRevoked:
		s.extendUnlisted(now)
		return !isListed(q, &s) && !s.isLive(now)
	}
	return s.isAdopted() && (q.activity.Lists && !isListed(q, &s) || !q.activity.Lists && !s.isLive(now))
}

// heartbeat applies a heartbeat.
func (m *modelLedger) heartbeat(q *request, a *answer) {
	now := a.now
	silent := now-m.lastSeen >= ms(linearTiming.Presence)
	if a.verdict = m.heartbeatVerdict(q, silent); a.verdict != store.OK {
		return
	}
	if silent {
		m.seq = 0
	}
	repeated := q.seq != 0 && q.seq == m.seq
	m.seq = max(m.seq, q.seq)
	if q.activity.Lists {
		m.heldUntil = 0
	}

	known := m.leasedJobs()
	m.leases = slices.DeleteFunc(m.leases, func(s modelLease) bool { return m.isFreed(q, s, repeated, now) })
	var orphans, overdue, strays []core.Lease
	var cancels []store.ActiveJob
	for i := range m.leases {
		s := &m.leases[i]
		overdueNow := s.age(now) >= ms(linearTiming.Attempt)
		switch listed := isListed(q, s); {
		case s.state == core.LeaseRevoked:
			if listed || q.activity.Lists && !repeated {
				s.expires = expiry(now)
			} else {
				s.extendUnlisted(now)
			}
			if listed || q.activity.Lists && (s.omitted != 0 || !s.inTransit(now)) {
				s.omitted = 1
			}
			cancels = append(cancels, s.job())
			continue
		case s.isAdopted():
			if listed {
				s.expires = expiry(now)
				strays = append(strays, s.export(now))
			}
			continue
		case listed:
			if s.state == core.LeaseParked {
				s.state = core.LeaseRunning
			}
			s.omitted, s.expires = 0, expiry(now)
		case s.state == core.LeaseParked:
			orphans = append(orphans, s.export(now))
			continue
		case !q.activity.Lists:
			if overdueNow {
				s.extendUnlisted(now)
			} else {
				s.expires = expiry(now)
			}
		case s.isYoung(now):
			s.expires = expiry(now)
		case s.omitted == 0 || s.omitted == 1 && repeated:
			s.omitted, s.expires = 1, expiry(now)
		default:
			s.omitted = 2
			orphans = append(orphans, s.export(now))
			continue
		}
		if overdueNow {
			overdue = append(overdue, s.export(now))
		}
	}
	strays = append(strays, m.adoptStrays(q, known, now)...)
	m.lastSeen = now
	m.foreign = m.foreignWork(q, now)
	a.epoch, a.revision, a.occupancy = m.epoch, m.revision, m.occupancy(now)
	a.lists = formatLeases("orphans", orphans) + formatLeases("overdue", overdue) + formatLeases("strays", strays) + formatCancels(cancels)
}

// heartbeatVerdict returns the verdict of a heartbeat.
func (m *modelLedger) heartbeatVerdict(q *request, silent bool) store.Verdict {
	switch {
	case m.epoch == 0:
		return store.UnknownNode
	case q.epoch > m.epoch:
		return store.UnknownNode
	case q.epoch != 0 && q.epoch != m.epoch:
		return store.StaleEpoch
	case q.seq != 0 && q.seq < m.seq && !silent:
		return store.TooLate
	}
	return store.OK
}

// isListed reports whether the node lists the job of a lease.
func isListed(q *request, s *modelLease) bool {
	return q.activity.Lists && slices.Contains(q.activity.Active, s.job())
}

// leasedJobs returns the jobs that have a lease.
func (m *modelLedger) leasedJobs() map[store.ActiveJob]bool {
	known := make(map[store.ActiveJob]bool)
	for i := range m.leases {
		known[m.leases[i].job()] = true
	}
	return known
}

// adoptStrays adds leases for listed jobs that have none.
func (m *modelLedger) adoptStrays(q *request, known map[store.ActiveJob]bool, now int64) []core.Lease {
	var strays []core.Lease
	for _, job := range q.activity.Active {
		if !known[job] {
			s := modelLease{
				ref:   core.LeaseRef{Node: q.lease.Node, Job: job.Job, Attempt: job.Attempt},
				state: core.LeaseRunning, reserved: tickOf(now), expires: expiry(now),
			}
			m.put(s)
			strays = append(strays, s.export(now))
		}
	}
	return strays
}

// foreignWork returns how much of the work that the node reports is not ours.
func (m *modelLedger) foreignWork(q *request, now int64) int {
	if !q.activity.Counts {
		return 0
	}
	ours := len(q.activity.Active)
	if !q.activity.Lists {
		ours = m.liveCount(now)
	}
	return max(0, q.activity.Current-ours)
}
