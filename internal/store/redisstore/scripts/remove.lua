-- Removes a node with its leases and marks, if it is in the given epoch and has been silent for long enough.
-- KEYS  meta, leases, unavailable
-- ARGV  not_after, minimum silence in ms, epoch or 0 for any
-- Returns {now, 1 if it is removed, 0 if it stays}.
local now = clock()
if is_late(now) then return { now } end
local meta = read_node(KEYS[1], 'seen', 'epoch')
if meta.seen and now - tonumber(meta.seen) < tonumber(ARGV[2]) then return { now, 0 } end
if meta.epoch and ARGV[3] ~= '0' and meta.epoch ~= ARGV[3] then return { now, 0 } end
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
return { now, 1 }
