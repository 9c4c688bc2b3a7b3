-- Sets or clears the drain of a node. A drained node gets no new jobs.
-- KEYS  meta
-- ARGV  not_after, 1 to drain, 0 to clear it
-- Returns {now, 1 if it was changed, 0 if it was so before, NOT_REGISTERED}.
local now = clock()
if is_late(now) then return { now } end
local meta = read_fields(KEYS[1], 'drained', 'healthy', 'ver', 'epoch', 'rev', 'held', 'disconnected')
if not meta.ver then return { now, NOT_REGISTERED } end
if meta.drained == ARGV[2] then return { now, 0 } end
local ready = ready_flag(meta.healthy, ARGV[2], meta.disconnected)
redis.call('HSET', KEYS[1], 'drained', ARGV[2], 'ready', ready, 'ver', tonumber(meta.ver) + 1,
  'grant', grant_key(meta.epoch, meta.rev, ready, meta.held))
return { now, 1 }
