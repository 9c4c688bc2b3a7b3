-- standalone: it runs for every job, and the library would cost more than it saves
-- Writes the record of a job unless there is one.
-- KEYS  record
-- ARGV  not_after, ttl in ms, record without the two times that it begins with
-- Returns a compact reply with the code RECORD_WRITTEN, or {now, 0, the stored record}.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if now > tonumber(ARGV[1]) and ARGV[1] ~= '0' then return { now } end
local at = string.format('%d', now)
local stored = redis.call('SET', KEYS[1], at .. ',' .. at .. ',' .. ARGV[3], 'NX', 'GET', 'PX', ARGV[2])
if stored then return { now, 0, stored } end
return ((now - EPOCH) * COMPACT_CODES + RECORD_WRITTEN) * COMPACT_COUNTS
