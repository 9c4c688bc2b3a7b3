-- Sets or clears the operator's wish that a node gets nothing new.
-- KEYS  meta
-- ARGV  not_after, drained
-- Returns {now, 1 if it was changed, 0 if it was so, -2 for an unknown node}.
local now = clock()
if late(now) then return { now } end
local meta = hash(KEYS[1], 'drained', 'healthy', 'ver', 'epoch', 'rev', 'held', 'away')
if not meta.ver then return { now, -2 } end
if meta.drained == ARGV[2] then return { now, 0 } end
local ready = grantable(meta.healthy, ARGV[2], meta.away)
redis.call('HSET', KEYS[1], 'drained', ARGV[2], 'ready', ready, 'ver', tonumber(meta.ver) + 1,
  'gate', gate(meta.epoch, meta.rev, ready, meta.held))
return { now, 1 }
