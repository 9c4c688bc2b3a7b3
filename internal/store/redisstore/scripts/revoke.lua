-- Revokes a lease whose job has left the node while the node may still be working on it: the slot stays taken until the node's lists
-- omit the job or the lease expires. A parked lease takes no slot and is removed at once.
-- KEYS  leases
-- ARGV  not_after, member
-- Returns {now, 1}.
local now = clock()
if is_late(now) then return { now } end
local score = redis.call('ZSCORE', KEYS[1], ARGV[2])
if score then
  local lease = unpack_score(score)
  if lease.state == PARKED then
    redis.call('ZREM', KEYS[1], ARGV[2])
  else
    local omitted = lease.omitted
    local _, adopted = parse_member(ARGV[2])
    if adopted or lease.state ~= REVOKED and omitted ~= NEVER then
      omitted = ONCE
    elseif lease.state == RUNNING then
      omitted = ARRIVED
    end
    redis.call('ZADD', KEYS[1], pack_score(lease.expires, lease.reserved, REVOKED + omitted), ARGV[2])
  end
end
return { now, 1 }
