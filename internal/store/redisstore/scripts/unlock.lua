-- Releases a lock if the holder has it.
-- KEYS  lock
-- ARGV  not_after, holder
-- Returns {now, 1}.
local now = clock()
if is_late(now) then return { now } end
if redis.call('GET', KEYS[1]) == ARGV[2] then redis.call('DEL', KEYS[1]) end
return { now, 1 }
