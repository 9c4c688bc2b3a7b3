package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis identifies scripts by it
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// The classes of errors, and errors of this package, for tests that check them.
var (
	ClassOf      = classOf
	ClassOfReply = classOfReply
	ErrTimeout   = errTimeout
	ErrLate      = errLate

	ParseReplicas = parseReplicas
)

// WaitForReleases waits until all queued releases are done.
func (s *Store) WaitForReleases() { s.releases.work.Wait() }

// LeasesKey returns the key of a node's leases, for tests that read Redis themselves.
func LeasesKey(prefix string, node core.NodeID) string { return keys{prefix}.leases(node) }

// Score is the decoded score of a lease, in milliseconds of the server's clock.
type Score struct {
	Reserved, Expires int64
	State             core.LeaseState
	Omitted           int64 // as the score contains it
}

// ParseScore decodes a score.
func ParseScore(score float64) Score {
	whole := int64(score)
	rest := whole / scoreCodes
	code := whole % scoreCodes
	return Score{
		Reserved: scoreEpochMS + (rest/scoreAges-rest%scoreAges)*tickMS, Expires: scoreEpochMS + rest/scoreAges*tickMS,
		State: leaseStateByCode[code%leaseStates], Omitted: code - code%leaseStates,
	}
}

// KeysByLabel returns every key of a node, a job, a session and so on that all have the same name.
func KeysByLabel(prefix, name string) map[string]string {
	k := keys{prefix}
	node, session := core.NodeID(name), SessionNamed(name)
	out, waiting := k.outbox(session)
	lock, fence := k.lock(name)
	revocations, _, _, _ := k.revocations()
	all := map[string]string{
		"meta": k.meta(node), "leases": k.leases(node), "marks": k.unavailable(node), "seen": k.lastSeen(lastSeenShard(core.NodeID(name))),
		"record": k.job(core.JobID(name)), "out": out, "waiting": waiting, "lock": lock, "fence": fence,
		"rate": k.rate(name), "snapshot": k.snapshot(), "history": k.history(), "setting": k.setting(name), "counts": k.counts(core.InstanceID(name)), "incarnation": k.incarnation(),
		"state": k.session(session.SessionKey), "presence": k.presence(core.InstanceID(name)),
		"revocations": revocations,
		"tenant_jobs": k.members(core.TenantID(name), store.TenantJob), "tenant_sessions": k.members(core.TenantID(name), store.TenantSession), "rates": k.rates(core.TenantID(name)),
		"known_jobs": k.known(core.TenantID(name), store.TenantJob), "known_sessions": k.known(core.TenantID(name), store.TenantSession),
		"inbox": k.inbox(core.InstanceID(name)), "dead": k.deadLetters(core.InstanceID(name)), "claims": k.claims(core.InstanceID(name)),
	}
	for i, key := range k.queue(core.PoolID(name)) {
		all["queue."+[]string{"line", "turns", "timers", "book", "open", "held"}[i]] = key
	}
	return all
}

// SessionNamed returns the session whose tenant, name and incarnation are all the given name.
func SessionNamed(name string) core.SessionRef {
	return core.SessionRef{
		SessionKey: core.SessionKey{Tenant: core.TenantID(name), Name: core.SessionID(name)}, Incarnation: core.SessionIncarnation(name),
	}
}

// CheckIncarnation reads the incarnation of the store, and starts one if the store is empty.
func (s *Store) CheckIncarnation(ctx context.Context) error {
	_, err := s.checkIncarnation(ctx)
	return err
}

// UseClock makes the scripts of queues read the time from a key instead of the clock of the server.
func (s *Store) UseClock(key string) { s.setQueueClock("tonumber(redis.call('GET', '" + key + "'))") }

// StopQueueClock makes the scripts of queues take a time, in Unix ms, for that of the server.
func (s *Store) StopQueueClock(at int64) { s.setQueueClock(strconv.FormatInt(at, 10)) }

// setQueueClock makes the scripts of queues take the value of an expression for the time of the server.
func (s *Store) setQueueClock(expression string) {
	s.queueScripts = loadQueueScripts(func(name, reply string) script {
		text := scriptSource("lib") + "\n" + scriptSource("lib_wait") + "\n" + scriptSource(name)
		text = replaceOnce(text, "local t = redis.call('TIME')\n  return t[1] * 1000 + math.floor(t[2] / 1000)", "return "+expression)
		text = replaceOnce(text, "return not_after > 0 and now > not_after", "return false")
		text = expandConstants(text)
		sum := sha1.Sum([]byte(text)) //nolint:gosec // Redis identifies scripts by it
		return script{name: name, text: text, sha: hex.EncodeToString(sum[:]), reply: shapeOf(reply)}
	})
}

func replaceOnce(text, old, by string) string {
	if strings.Count(text, old) != 1 {
		panic("the library of the scripts has changed: " + old)
	}
	return strings.Replace(text, old, by, 1)
}

// QueueKeys returns the keys of the queue of a pool.
func QueueKeys(prefix string, pool core.PoolID) []string { return keys{prefix}.queue(pool) }
