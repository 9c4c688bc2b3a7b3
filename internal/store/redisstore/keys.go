package redisstore

import (
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// lastSeenShards is over how many keys the last-seen times are spread, so that no key is written for every node.
const lastSeenShards = 16

// keys makes every key. The part in braces decides the slot.
type keys struct{ prefix string }

func (k keys) meta(id core.NodeID) string {
	return k.prefix + ":v1:nodes:{node:" + string(id) + "}:meta"
}

func (k keys) leases(id core.NodeID) string {
	return k.prefix + ":v1:nodes:{node:" + string(id) + "}:leases"
}

func (k keys) unavailable(id core.NodeID) string {
	return k.prefix + ":v1:nodes:{node:" + string(id) + "}:unavailable"
}

func (k keys) lastSeen(shard int) string {
	return k.prefix + ":v1:nodes:last_seen:" + strconv.Itoa(shard)
}

// digests returns the key of the digests of the nodes of a shard. It names the key of their last-seen times in braces, whose slot it
// shares.
func (k keys) digests(shard int) string {
	return k.prefix + ":v1:nodes:digests:{" + k.lastSeen(shard) + "}"
}

// lastSeenShard returns the shard of a node's last-seen time.
func lastSeenShard(id core.NodeID) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return int(h.Sum32() % lastSeenShards)
}

func (k keys) changes() string { return k.prefix + ":v1:nodes:changes" }

func (k keys) job(id core.JobID) string { return k.prefix + ":v1:jobs:{job:" + string(id) + "}:fsm" }

// outbox returns the keys of the stream of one incarnation of a session, and of the messages that wait for their predecessors.
func (k keys) outbox(session core.SessionRef) (out, waiting string) {
	base := k.prefix + ":v1:sessions:{session:" + session.SessionKey.String() + "}:" + string(session.Incarnation) + ":out"
	return base, base + ":waiting"
}

// session returns the key of the state of the session that uses a name.
func (k keys) session(key core.SessionKey) string {
	return k.prefix + ":v1:sessions:{session:" + key.String() + "}:state"
}

// lastNode returns the key of the node of a session's last HTTP job.
func (k keys) lastNode(session string) string {
	return k.prefix + ":v1:sessions:{session:" + session + "}:last_node"
}

// presence returns the key that exists while an instance is present. The keys of its inbox and its dead letters share its slot.
func (k keys) presence(id core.InstanceID) string {
	return k.prefix + ":schedulers:presence:{instance:" + string(id) + "}"
}

func (k keys) inbox(id core.InstanceID) string {
	return k.prefix + ":streams:{instance:" + string(id) + "}:inbox"
}

func (k keys) deadLetters(id core.InstanceID) string {
	return k.prefix + ":streams:{instance:" + string(id) + "}:dlq"
}

// claims returns the key of the instances that are replaying dead letters.
func (k keys) claims(id core.InstanceID) string { return k.deadLetters(id) + ":claims" }

// replayed returns the key that exists after a dead letter was replayed to an instance.
func (k keys) replayed(to core.InstanceID, name string) string {
	return k.prefix + ":streams:{instance:" + string(to) + "}:replayed:" + name
}

// schedulers returns the key of the list of instances.
func (k keys) schedulers() string { return k.prefix + ":schedulers:all" }

// log returns the key of a log.
func (k keys) log(name store.Log) string { return k.prefix + ":v1:" + string(name) }

// revocations returns the keys of the list of revocations: the entries by their targets, their times, when they are dropped, and the
// version of the list.
func (k keys) revocations() (entries, times, expiries, version string) {
	base := k.prefix + ":v1:auth:{revocations}:"
	return base + "entries", base + "times", base + "expiries", base + "version"
}

func (k keys) rate(key string) string { return k.prefix + ":v1:ratelimit:" + key }

// lock returns the keys of a lock and of its fence.
func (k keys) lock(name string) (lock, fence string) {
	base := k.prefix + ":v1:locks:{lock:" + name + "}"
	return base, base + ":fence"
}

// counts returns the key of what an instance has counted.
func (k keys) counts(id core.InstanceID) string {
	return k.prefix + ":v1:stats:counts:{instance:" + string(id) + "}"
}

func (k keys) snapshot() string { return k.prefix + ":v1:stats:snapshot" }

// history returns the key of the history of the stats.
func (k keys) history() string { return k.prefix + ":v1:stats:history" }

// setting returns the key of a setting on which all instances agree.
func (k keys) setting(name string) string { return k.prefix + ":v1:settings:" + name }

// queue returns the keys of the queue of a pool, in the order of the scripts: line, turns, timers, book, open, held.
func (k keys) queue(pool core.PoolID) []string {
	base := k.prefix + ":v1:wait:{pool:" + string(pool) + "}:"
	return []string{base + "line", base + "turns", base + "timers", base + "book", base + "open", base + "held"}
}

// openClasses returns the key of the classes in which somebody waits.
func (k keys) openClasses(pool core.PoolID) string {
	return k.prefix + ":v1:wait:{pool:" + string(pool) + "}:open"
}

// members returns the key of the jobs or the sessions of a tenant. It shares its slot with the key of the tenant's rates.
func (k keys) members(id core.TenantID, kind store.MemberKind) string {
	if kind == store.TenantSession {
		return k.tenant(id) + ":sessions"
	}
	return k.tenant(id) + ":jobs"
}

// known returns the key that says that there are members of a kind.
func (k keys) known(id core.TenantID, kind store.MemberKind) string {
	return k.members(id, kind) + ":known"
}

// rates returns the key of the token buckets of a tenant.
func (k keys) rates(id core.TenantID) string { return k.tenant(id) + ":rates" }

func (k keys) tenant(id core.TenantID) string {
	return k.prefix + ":v1:tenants:{tenant:" + string(id) + "}"
}

func (k keys) ping() string { return k.prefix + ":v1:ping" }

func (k keys) incarnation() string { return k.prefix + ":v1:incarnation" }

// slotCount is the number of slots of a cluster.
const slotCount = 1 << 14

// keySlot returns the cluster slot of a key: the CRC-16/XMODEM of the part in its first braces, or of the whole key.
func keySlot(key string) int {
	if begin := strings.IndexByte(key, '{'); begin >= 0 {
		if length := strings.IndexByte(key[begin+1:], '}'); length > 0 {
			key = key[begin+1 : begin+1+length]
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slotCount
}
