-- Frees a slot but leaves its name in the set, so that a job which is neither finished nor moved on is found.
-- KEYS  leases
-- ARGV  not_after, member
-- Returns {now, 1}.
local now = clock()
if late(now) then return { now } end
local score = redis.call('ZSCORE', KEYS[1], ARGV[2])
if score then
  local lease = unpack_score(score)
  local tick = tick_of(now)
  redis.call('ZADD', KEYS[1], pack(tick, math.min(lease.since, tick), PARKED + lease.omitted), ARGV[2])
end
return { now, 1 }
