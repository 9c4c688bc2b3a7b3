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
    local omitted = lease.omitted
    local _, adopted = named(ARGV[2]) -- from a list of its node's
    if adopted or lease.state ~= REVOKED and omitted ~= NEVER then
      omitted = ONCE
    elseif lease.state == RUNNING then
      omitted = ARRIVED
    end
    redis.call('ZADD', KEYS[1], pack(lease.expires, lease.since, REVOKED + omitted), ARGV[2])
  end
end
return { now, 1 }
