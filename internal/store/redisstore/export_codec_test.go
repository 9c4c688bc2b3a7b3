package redisstore

import (
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// UsePeoplesPermits takes all permits of the reads that people ask for. The function gives them back.
func (s *Store) UsePeoplesPermits() (free func()) {
	p := s.client.people
	for range cap(p.permits) {
		p.permits <- struct{}{}
	}
	return func() { p.release(cap(p.permits)) }
}

// OpenPeoplesBreaker reports failures to the breaker of the reads that people ask for, and returns with what it refuses the next one.
func (s *Store) OpenPeoplesBreaker() error {
	p := s.client.people
	for range breakerFailures {
		p.reportToBreaker(store.ErrDown)
	}
	_, err := p.command(store.ForPeople(s.ctx), p.redis.B().Ping().Build())
	return err
}

// RecordRoundTrip encodes a record, and decodes it.
func RecordRoundTrip(j *core.Job) (*core.Job, error) {
	body, err := appendBody([]byte(headOf(j)), j)
	if err != nil {
		return nil, err
	}
	return decodeRecord(j.ID, string(body))
}

// DigestRoundTrip encodes a digest, and decodes it.
func DigestRoundTrip(d *store.NodeDigest) store.NodeDigest {
	return decodeDigest(d.LastSeen, encodeDigest(d))
}

// MemberRoundTrip encodes a lease as the member of a set, and decodes it.
func MemberRoundTrip(l core.LeaseRef) core.LeaseRef { return parseMember(l.Node, member(l)) }

// Families returns the keys of what has a name, and those without names, by the method of keys that makes them.
func Families(prefix, name string) map[string][]string {
	k := keys{prefix}
	node, instance, tenant, session := core.NodeID(name), core.InstanceID(name), core.TenantID(name), SessionNamed(name)
	list := func(keys ...string) []string { return keys }
	shard := lastSeenShard(node)
	return map[string][]string{
		"meta": list(k.meta(node)), "leases": list(k.leases(node)), "unavailable": list(k.unavailable(node)), "lastSeen": list(k.lastSeen(shard)),
		"digests": list(k.digests(shard)), "changes": list(k.changes()), "job": list(k.job(core.JobID(name))), "outbox": list(k.outbox(session)),
		"session": list(k.session(session.SessionKey)), "lastNode": list(k.lastNode(session.SessionKey.String())), "presence": list(k.presence(instance)),
		"inbox": list(k.inbox(instance)), "deadLetters": list(k.deadLetters(instance)), "claims": list(k.claims(instance)),
		"replayed": list(k.replayed(instance, name)), "schedulers": list(k.schedulers()), "log": list(k.log(store.EventLog), k.log(store.AuditLog)),
		"revocations": list(k.revocations()), "rate": list(k.rate(name)), "lock": list(k.lock(name)),
		"counts": list(k.counts(instance)), "snapshot": list(k.snapshot()), "history": list(k.history()), "setting": list(k.setting(name)),
		"queue": k.queue(core.PoolID(name)), "openClasses": list(k.openClasses(core.PoolID(name))),
		"members": list(k.members(tenant, store.TenantJob), k.members(tenant, store.TenantSession)),
		"known":   list(k.known(tenant, store.TenantJob), k.known(tenant, store.TenantSession)), "rates": list(k.rates(tenant)),
		"ping": list(k.ping()), "incarnation": list(k.incarnation()),
	}
}
