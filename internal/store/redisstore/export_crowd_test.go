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
	rest := whole / codes
	code := whole % codes
	return Score{
		Since: epoch + (rest/ages-rest%ages)*tick, Expires: epoch + rest/ages*tick,
		State: statesByCode[code%states], Omitted: code - code%states,
	}
}

// KeysOf names every key there can be for a node, a job, a session and so on that are all called the same.
func KeysOf(prefix, name string) map[string]string {
	k := keys{prefix}
	node := core.NodeID(name)
	out, waiting := k.outbox(core.SessionID(name))
	lock, fence := k.lock(name)
	return map[string]string{
		"meta": k.meta(node), "leases": k.leases(node), "marks": k.unavailable(node), "seen": k.lastSeen(seenShard(core.NodeID(name))),
		"record": k.job(core.JobID(name)), "out": out, "waiting": waiting, "lock": lock, "fence": fence,
		"debounce": k.debounce(name), "rate": k.rate(name), "snapshot": k.snapshot(name), "life": k.incarnation(),
		"state": k.session(core.SessionID(name)), "presence": k.presence(core.InstanceID(name)),
		"inbox": k.inbox(core.InstanceID(name)), "dead": k.dead(core.InstanceID(name)),
	}
}
