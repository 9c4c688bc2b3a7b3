-- Reads a node. Writes nothing.
-- KEYS  meta, leases
-- ARGV  presence
-- Returns {now, {epoch, rev, ver, drained, away, body, load, seen}, occupancy}, the second false for an unknown node.
local now = clock()
local meta = hash(KEYS[1], 'epoch', 'rev', 'ver', 'drained', 'body', 'load', 'seen', 'max', 'foreign', 'ready', 'held', 'away')
if not meta.epoch then return { now, false } end
return {
  now, { meta.epoch, meta.rev, meta.ver, meta.drained, meta.away or '0', meta.body, meta.load, meta.seen },
  occupancy(now, tick_of(now), meta, KEYS[2], tonumber(ARGV[1])),
}
