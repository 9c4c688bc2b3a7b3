-- Notes that a job has left a node which may still be busy with it: the slot stays taken until the node lets go or
-- the lease lapses. A parked lease holds no slot and goes at once.
-- KEYS  leases
-- ARGV  not_after, member
-- Returns {now, 1}.
local now = clock()
if late(now) then return { now } end
local score = redis.call('ZSCORE', KEYS[1], ARGV[2])
if score then
  local lease = unpack_score(score)
  if lease.state == PARKED then
    redis.call('ZREM', KEYS[1], ARGV[2])
  else
    -- A node that has confirmed the job has let go of it as soon as its list leaves it out.
    local omitted = lease.state == RUNNING and math.max(lease.omitted, ONCE) or lease.omitted
    redis.call('ZADD', KEYS[1], pack(lease.expires, lease.since, REVOKED + omitted), ARGV[2])
  end
end
return { now, 1 }
