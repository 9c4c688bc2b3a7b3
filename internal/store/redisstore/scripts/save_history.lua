-- Replaces parts of the history, unless it was written with a higher fence.
-- KEYS  history
-- ARGV  not_after, fence, ttl in ms; then for each part: field, body
-- Returns {now, 1 if they were replaced, else 0}.
local now = clock()
if is_late(now) then return { now } end
if is_fenced(KEYS[1], ARGV[2]) then return { now, 0 } end
redis.call('HSET', KEYS[1], 'fence', ARGV[2], unpack(ARGV, 4))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return { now, 1 }
