-- Decides how many slots of a node may be granted, unless that was decided with a higher fence. The field admission is the limit, or
-- all; the reason; when it was decided, and when it is meant to end, or 0; and how many times in a row the node was ejected. It is empty
-- if nothing was decided, or nothing is to be remembered. A decision that is in force already is not made again.
-- KEYS  meta
-- ARGV  not_after, fence, limit or all, reason, times, for how many ms it is meant to last, or 0
-- Returns {now, 1 if it is in force, 0 if it is fenced, {epoch, rev, ver, drained, disconnected, admission, body}}, or
--       {now, NOT_REGISTERED}.
local now = clock()
if is_late(now) then return { now } end
local meta = read_fields(KEYS[1], 'epoch', 'rev', 'ver', 'drained', 'disconnected', 'admission', 'body', 'max', 'foreign')
if not meta.epoch then return { now, NOT_REGISTERED } end
local fenced = is_fenced(KEYS[1], ARGV[2])
local limit, reason, since, ends, times = string.match(meta.admission or '', '^(%w+) (%S*) (%d+) (%d+) (%d+)$')
local last = { limit or 'all', reason or '', times or '0', ends and ends ~= '0' and tonumber(ends) - tonumber(since) or 0 }
if not fenced then
  local fields = { 'fence', ARGV[2] }
  if last[1] ~= ARGV[3] or last[2] ~= ARGV[4] or last[3] ~= ARGV[5] or last[4] ~= tonumber(ARGV[6]) then
    meta.ver, meta.admission = tostring(tonumber(meta.ver) + 1), ''
    if ARGV[3] ~= 'all' or ARGV[4] ~= '' or ARGV[5] ~= '0' or ARGV[6] ~= '0' then
      meta.admission = string.format('%s %s %.0f %.0f %s', ARGV[3], ARGV[4], now, ARGV[6] == '0' and 0 or now + tonumber(ARGV[6]), ARGV[5])
    end
    for _, field in ipairs({ 'admission', meta.admission, 'ver', meta.ver,
      'capacity', capacity_of(meta.max, meta.admission, meta.foreign) }) do
      fields[#fields + 1] = field
    end
  end
  redis.call('HSET', KEYS[1], unpack(fields))
end
return {
  now, fenced and 0 or 1, { meta.epoch, meta.rev, meta.ver, meta.drained, meta.disconnected or '0', meta.admission or '', meta.body },
}
