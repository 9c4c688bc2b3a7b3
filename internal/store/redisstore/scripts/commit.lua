-- Notes that the node has confirmed a job.
-- KEYS  leases
-- ARGV  not_after, member, presence
-- Returns {now, 1 if the lease lives, 0 if not}.
local now = clock()
if late(now) then return { now } end
local score = redis.call('ZSCORE', KEYS[1], ARGV[2])
if not score then return { now, 0 } end
local tick, lease = tick_of(now), unpack_score(score)
if lease.expires <= tick or lease.state == REVOKED or lease.state == PARKED then return { now, 0 } end
redis.call('ZADD', KEYS[1], pack(expiry(tick, tonumber(ARGV[3])), lease.since, RUNNING + lease.omitted), ARGV[2])
return { now, 1 }
