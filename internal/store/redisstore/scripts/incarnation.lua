-- Reads the incarnation of the store, and starts one if the store is empty.
-- KEYS  incarnation
-- ARGV  not_after, id of a new incarnation
-- Returns {now, id, when it began, 1 if it began with this call, else 0}.
local now = clock()
if is_late(now) then return { now } end
local current = redis.call('HMGET', KEYS[1], 'id', 'began')
if current[1] then return { now, current[1], tonumber(current[2]), 0 } end
redis.call('HSET', KEYS[1], 'id', ARGV[2], 'began', now)
return { now, ARGV[2], now, 1 }
