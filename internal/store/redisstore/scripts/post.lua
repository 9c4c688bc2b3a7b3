-- Puts a letter into the inbox of an instance that is present.
-- KEYS  presence, inbox
-- ARGV  not_after, the most letters it may hold, body
-- Returns {now, 1 if it was taken, 2 if nobody is there, 3 if the inbox is full}.
local now = clock()
if late(now) then return { now } end
if redis.call('EXISTS', KEYS[1]) == 0 then return { now, 2 } end
if redis.call('XLEN', KEYS[2]) >= tonumber(ARGV[2]) then return { now, 3 } end
redis.call('XADD', KEYS[2], '*', 'b', ARGV[3])
return { now, 1 }
