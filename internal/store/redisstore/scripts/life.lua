-- Tells in which life the store is, and begins one if it is empty.
-- KEYS  incarnation
-- ARGV  not_after, a name for a new life
-- Returns {now, name, when it began, 1 if it began just now}.
local now = clock()
if late(now) then return { now } end
local began = redis.call('HMGET', KEYS[1], 'name', 'began')
if began[1] then return { now, began[1], tonumber(began[2]), 0 } end
redis.call('HSET', KEYS[1], 'name', ARGV[2], 'began', now)
return { now, ARGV[2], now, 1 }
