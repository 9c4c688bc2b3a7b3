-- Notes that a node's connection was made or lost: while it is lost the node gets nothing new.
-- KEYS  meta
-- ARGV  not_after, epoch, connection, lost
-- Returns {now, 1 if it is so now, 0 if it is about another epoch or an earlier connection, -2 for an unknown node}.
local now = clock()
if late(now) then return { now } end
local meta = hash(KEYS[1], 'epoch', 'rev', 'ver', 'drained', 'healthy', 'held', 'away', 'conn')
if not meta.epoch then return { now, -2 } end
local made, last = tonumber(ARGV[3]), tonumber(meta.conn or 0)
if meta.epoch ~= ARGV[2] or made < last and (ARGV[4] == '1' or made ~= 0) then return { now, 0 } end
local changed = (meta.away or '0') ~= ARGV[4]
if changed or meta.conn ~= ARGV[3] then
  local ready = grantable(meta.healthy, meta.drained, ARGV[4])
  redis.call('HSET', KEYS[1], 'conn', ARGV[3], 'away', ARGV[4], 'ready', ready, 'ver', tonumber(meta.ver) + (changed and 1 or 0),
    'gate', gate(meta.epoch, meta.rev, ready, meta.held))
end
return { now, 1 }
