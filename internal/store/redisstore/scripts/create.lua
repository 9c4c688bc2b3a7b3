-- alone: on the way of every job, where what scripts share would cost more than it saves
-- Writes a job's record unless there is one.
-- KEYS  record
-- ARGV  not_after, ttl, the record but for its times
-- Returns, in brief, the code 1, or {now, 0, the record that stands}.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if now > tonumber(ARGV[1]) and ARGV[1] ~= '0' then return { now } end
local at = string.format('%d', now)
local old = redis.call('SET', KEYS[1], at .. ',' .. at .. ',' .. ARGV[3], 'NX', 'GET', 'PX', ARGV[2])
if old then return { now, 0, old } end
return ((now - 1704067200000) * 16 + 1) * 256
