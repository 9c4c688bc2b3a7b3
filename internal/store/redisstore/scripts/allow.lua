-- Counts one use of a key and says whether it is within the limit of the window it began.
-- KEYS  counter
-- ARGV  not_after, limit, window
-- Returns {now, 1 or 0}.
local now = clock()
if late(now) then return { now } end
local used = redis.call('INCR', KEYS[1])
if used == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return { now, used <= tonumber(ARGV[2]) and 1 or 0 }
