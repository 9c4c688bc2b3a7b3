-- Reads the occupancy of a node. Writes nothing.
-- KEYS  meta, leases
-- ARGV  presence in ms
-- Returns {now, {max, reserved, running, foreign, closed, held, withheld}}, or {now, false} for an unknown node.
local now = clock()
local meta = read_fields(KEYS[1], 'max', 'foreign', 'ready', 'seen', 'held', 'admission')
if not meta.max then return { now, false } end
return { now, occupancy(now, tick_of(now), meta, KEYS[2], tonumber(ARGV[1])) }
