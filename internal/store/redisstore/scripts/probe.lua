-- Says how full a node is. Writes nothing.
-- KEYS  meta, leases
-- ARGV  presence
-- Returns {now, {max, reserved, running, foreign, closed, held}}, the second false for an unknown node.
local now = clock()
local meta = hash(KEYS[1], 'max', 'foreign', 'ready', 'seen', 'held')
if not meta.max then return { now, false } end
return { now, occupancy(now, tick_of(now), meta, KEYS[2], tonumber(ARGV[1])) }
