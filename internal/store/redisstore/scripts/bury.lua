-- Removes the inbox of an instance that is not present.
-- KEYS  presence, inbox, dead letters
-- ARGV  not_after
-- Returns {now, 1 if it was removed, 0 if the instance is back, how many dead letters it has}.
local now = clock()
if late(now) then return { now } end
if redis.call('EXISTS', KEYS[1]) == 1 then return { now, 0, 0 } end
redis.call('DEL', KEYS[2])
return { now, 1, redis.call('XLEN', KEYS[3]) }
