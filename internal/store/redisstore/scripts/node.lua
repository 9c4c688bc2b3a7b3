-- Reads a node. Writes nothing.
-- KEYS  meta, leases
-- ARGV  presence in ms
-- Returns {now, {epoch, rev, ver, drained, disconnected, admission, body, load, seen}, occupancy}, or {now, false} for an unknown node.
local now = clock()
local meta = read_fields(KEYS[1], 'epoch', 'rev', 'ver', 'drained', 'body', 'load', 'seen', 'max', 'foreign', 'ready', 'held', 'disconnected',
  'admission')
if not meta.epoch then return { now, false } end
return {
  now, { meta.epoch, meta.rev, meta.ver, meta.drained, meta.disconnected or '0', meta.admission or '', meta.body, meta.load, meta.seen },
  occupancy(now, tick_of(now), meta, KEYS[2], tonumber(ARGV[1])),
}
