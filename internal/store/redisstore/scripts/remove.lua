-- Forgets a node and its leases, unless it was heard more lately than that.
-- KEYS  meta, leases, unavailable
-- ARGV  not_after, silent_for
-- Returns {now, 1 if it is gone, 0 if it stays}.
local now = clock()
if late(now) then return { now } end
local seen = redis.call('HGET', KEYS[1], 'seen')
if seen and now - tonumber(seen) < tonumber(ARGV[2]) then return { now, 0 } end
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
return { now, 1 }
