-- Records that a connection of a node was established or lost, or is silent. Until it is established again the node gets no new jobs.
-- KEYS  meta
-- ARGV  not_after, epoch, connection, 1 if it was lost, else 0, for how many ms it was silent if it is lost only in this way, else 0
-- Returns {now, 1 if it was recorded, 0 if it is about another epoch or an earlier connection, NOT_REGISTERED}.
local now = clock()
if is_late(now) then return { now } end
local meta = read_fields(KEYS[1], 'epoch', 'rev', 'ver', 'drained', 'healthy', 'held', 'disconnected', 'connection')
if not meta.epoch then return { now, NOT_REGISTERED } end
local connection, last = tonumber(ARGV[3]), tonumber(meta.connection or 0)
if meta.epoch ~= ARGV[2] or connection < last and (ARGV[4] == '1' or connection ~= 0) then return { now, 0 } end
local was, disconnected = read_number(meta.disconnected), tonumber(ARGV[4])
if ARGV[5] ~= '0' then disconnected = was > 1 and was or now - tonumber(ARGV[5]) end
local changed = was ~= disconnected
if changed or meta.connection ~= ARGV[3] then
  local ready = ready_flag(meta.healthy, meta.drained, string.format('%.0f', disconnected))
  redis.call('HSET', KEYS[1], 'connection', ARGV[3], 'disconnected', string.format('%.0f', disconnected), 'ready', ready,
    'ver', tonumber(meta.ver) + (changed and 1 or 0), 'grant', grant_key(meta.epoch, meta.rev, ready, meta.held))
end
return { now, 1 }
