package redisstore

import (
	"hash/fnv"
	"strconv"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// seenShards spreads when nodes were last heard over keys, so that no key is written by every heartbeat of a fleet.
const seenShards = 16

// keys makes every key there is. What is in braces decides the slot.
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

// seenShard is the shard in which a node's last sighting is kept.
func seenShard(id core.NodeID) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return int(h.Sum32() % seenShards)
}

func (k keys) changes() string { return k.prefix + ":v1:nodes:changes" }

func (k keys) job(id core.JobID) string { return k.prefix + ":v1:jobs:{job:" + string(id) + "}:fsm" }

// outbox returns the stream of one incarnation of a session, and the messages that wait for their predecessors.
func (k keys) outbox(session core.SessionRef) (out, waiting string) {
	base := k.prefix + ":v1:sessions:{session:" + session.SessionKey.String() + "}:" + string(session.Incarnation) + ":out"
	return base, base + ":waiting"
}

// session is where the state of the session is that has a name now.
func (k keys) session(key core.SessionKey) string {
	return k.prefix + ":v1:sessions:{session:" + key.String() + "}:state"
}

// presence says that an instance is there; its inbox and its dead letters share its slot.
func (k keys) presence(id core.InstanceID) string {
	return k.prefix + ":schedulers:presence:{instance:" + string(id) + "}"
}

func (k keys) inbox(id core.InstanceID) string {
	return k.prefix + ":streams:{instance:" + string(id) + "}:inbox"
}

func (k keys) dead(id core.InstanceID) string {
	return k.prefix + ":streams:{instance:" + string(id) + "}:dlq"
}

// claims says who is replaying dead letters; replayed that a dead letter of that name was put into an inbox a moment ago.
func (k keys) claims(id core.InstanceID) string { return k.dead(id) + ":claims" }

func (k keys) replayed(to core.InstanceID, name string) string {
	return k.prefix + ":streams:{instance:" + string(to) + "}:replayed:" + name
}

// schedulers lists the instances there are, and those that have left something behind.
func (k keys) schedulers() string { return k.prefix + ":schedulers:all" }

func (k keys) debounce(key string) string { return k.prefix + ":v1:debounce:" + key }

func (k keys) rate(key string) string { return k.prefix + ":v1:ratelimit:" + key }

// lock returns the key of a lock and that of its fence.
func (k keys) lock(name string) (lock, fence string) {
	base := k.prefix + ":v1:locks:{lock:" + name + "}"
	return base, base + ":fence"
}

func (k keys) snapshot(name string) string { return k.prefix + ":v1:stats:snapshot:" + name }

func (k keys) ping() string { return k.prefix + ":v1:ping" }

func (k keys) incarnation() string { return k.prefix + ":v1:incarnation" }
