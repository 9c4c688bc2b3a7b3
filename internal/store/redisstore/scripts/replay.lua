-- Puts a dead letter into the inbox of an instance that is present, with the age it has. One that was put there a moment ago
-- by the same instance is not put there again.
-- KEYS  presence, inbox, that it was replayed
-- ARGV  not_after, the most letters it may hold, body, age, how long it is remembered that it was replayed
-- Returns {now, 1 if it was taken, 2 if nobody is there, 3 if the inbox is full}.
local now = clock()
if late(now) then return { now } end
if redis.call('EXISTS', KEYS[1]) == 0 then return { now, 2 } end
if redis.call('EXISTS', KEYS[3]) == 1 then return { now, 1 } end
if redis.call('XLEN', KEYS[2]) >= tonumber(ARGV[2]) then return { now, 3 } end
redis.call('SET', KEYS[3], '1', 'PX', ARGV[5])
redis.call('XADD', KEYS[2], '*', 'b', ARGV[3], 'at', string.format('%.0f-0', now - tonumber(ARGV[4])))
return { now, 1 }
