-- standalone: it runs for every job, and the library would cost more than it saves
-- Replaces the record of a job if it still has the head that the caller has seen: the compare-and-set behind every transition.
-- KEYS  record
-- ARGV  not_after, ttl in ms (0: keep the current one), expected head, new record without the two times that it begins with; optional:
--       not_before (0: none), 1 to set the time of creation to now
-- Returns a compact reply with the code RECORD_WRITTEN or RECORD_TOO_EARLY, or {now, 0, the stored record or false}.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if now > tonumber(ARGV[1]) and ARGV[1] ~= '0' then return { now } end
local head = ARGV[3]
if redis.call('GETRANGE', KEYS[1], '0', #head - 1) ~= head then
  return { now, 0, redis.call('GET', KEYS[1]) }
end
if ARGV[5] and tonumber(ARGV[5]) > now then return ((now - EPOCH) * COMPACT_CODES + RECORD_TOO_EARLY) * COMPACT_COUNTS end
local at = string.format('%d', now)
local created = ARGV[6] == '1' and at or string.sub(head, 1, 13)
local record = created .. ',' .. at .. ',' .. ARGV[4]
if ARGV[2] == '0' then
  redis.call('SET', KEYS[1], record, 'KEEPTTL')
else
  redis.call('SET', KEYS[1], record, 'PX', ARGV[2])
end
return ((now - EPOCH) * COMPACT_CODES + RECORD_WRITTEN) * COMPACT_COUNTS
