-- Removes a node with its leases and marks, if it has been silent for long enough.
-- KEYS  meta, leases, unavailable
-- ARGV  not_after, minimum silence in ms
-- Returns {now, 1 if it is removed, 0 if it stays}.
local now = clock()
if is_late(now) then return { now } end
local seen = redis.call('HGET', KEYS[1], 'seen')
if seen and now - tonumber(seen) < tonumber(ARGV[2]) then return { now, 0 } end
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
return { now, 1 }
