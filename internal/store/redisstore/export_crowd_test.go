package redisstore

import "github.com/lingua-scheduler/lingua/internal/core"

// LeasesKey is where the leases of a node lie, for an auditor who looks for himself.
func LeasesKey(prefix string, node core.NodeID) string { return keys{prefix}.leases(node) }

// Score is what the score of a lease says, in milliseconds on the server's clock.
type Score struct {
	Since, Expires int64
	State          core.LeaseState
	Omitted        int64 // as it is written
}

// ReadScore takes a score apart.
func ReadScore(score float64) Score {
	whole := int64(score)
	rest := whole / scoreCodes
	code := whole % scoreCodes
	return Score{
		Since: scoreEpochMS + (rest/scoreAges-rest%scoreAges)*tickMS, Expires: scoreEpochMS + rest/scoreAges*tickMS,
		State: leaseStateByCode[code%leaseStates], Omitted: code - code%leaseStates,
	}
}

// KeysOf names every key there can be for a node, a job, a session and so on that are all called the same.
func KeysOf(prefix, name string) map[string]string {
	k := keys{prefix}
	node, session := core.NodeID(name), SessionOf(name)
	out, waiting := k.outbox(session)
	lock, fence := k.lock(name)
	return map[string]string{
		"meta": k.meta(node), "leases": k.leases(node), "marks": k.unavailable(node), "seen": k.lastSeen(lastSeenShard(core.NodeID(name))),
		"record": k.job(core.JobID(name)), "out": out, "waiting": waiting, "lock": lock, "fence": fence,
		"debounce": k.debounce(name), "rate": k.rate(name), "snapshot": k.snapshot(name), "incarnation": k.incarnation(),
		"state": k.session(session.SessionKey), "presence": k.presence(core.InstanceID(name)),
		"inbox": k.inbox(core.InstanceID(name)), "dead": k.deadLetters(core.InstanceID(name)), "claims": k.claims(core.InstanceID(name)),
	}
}

// SessionOf is the session whose tenant, name and incarnation are all called the same.
func SessionOf(name string) core.SessionRef {
	return core.SessionRef{
		SessionKey: core.SessionKey{Tenant: core.TenantID(name), Name: core.SessionID(name)}, Incarnation: core.SessionIncarnation(name),
	}
}
