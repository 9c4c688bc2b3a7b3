-- alone: on the way of every job, where what scripts share would cost more than it saves
-- Puts another record in the place of the one the caller has seen: the compare-and-set by which every step of a
-- job is made.
-- KEYS  record
-- ARGV  not_after, ttl (0: what is left of it), head as seen, the other record but for its times; if need be
--       not_before (0: whenever), anew (1: as if it were created now)
-- Returns, in brief, the code 1, or 2 when it is too early, or {now, 0, the record that stands or false}.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if now > tonumber(ARGV[1]) and ARGV[1] ~= '0' then return { now } end
local seen = ARGV[3]
if redis.call('GETRANGE', KEYS[1], '0', #seen - 1) ~= seen then
  return { now, 0, redis.call('GET', KEYS[1]) }
end
if ARGV[5] and tonumber(ARGV[5]) > now then return ((now - 1704067200000) * 16 + 2) * 256 end
local at = string.format('%d', now)
local created = ARGV[6] == '1' and at or string.sub(seen, 1, 13)
local record = created .. ',' .. at .. ',' .. ARGV[4]
if ARGV[2] == '0' then
  redis.call('SET', KEYS[1], record, 'KEEPTTL')
else
  redis.call('SET', KEYS[1], record, 'PX', ARGV[2])
end
return ((now - 1704067200000) * 16 + 1) * 256
