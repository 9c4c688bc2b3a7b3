-- Frees the slot of a lease but keeps the lease in the set, so that its job, which is neither finished nor moved, is found.
-- KEYS  leases
-- ARGV  not_after, member
-- Returns {now, 1}.
local now = clock()
if is_late(now) then return { now } end
local score = redis.call('ZSCORE', KEYS[1], ARGV[2])
if score then
  local lease = unpack_score(score)
  local tick = tick_of(now)
  redis.call('ZADD', KEYS[1], pack_score(tick, math.min(lease.reserved, tick), PARKED + lease.omitted), ARGV[2])
end
return { now, 1 }
