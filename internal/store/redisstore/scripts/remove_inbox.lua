-- Removes the inbox of an absent instance.
-- KEYS  presence, inbox, dead letters
-- ARGV  not_after
-- Returns {now, 1 if it was removed, 0 if the instance is present, number of dead letters}.
local now = clock()
if is_late(now) then return { now } end
if redis.call('EXISTS', KEYS[1]) == 1 then return { now, 0, 0 } end
redis.call('DEL', KEYS[2])
return { now, 1, redis.call('XLEN', KEYS[3]) }
