-- alone: on the way of every job, where what scripts share would cost more than it saves
-- Writes a job's record unless there is one.
-- KEYS  record
-- ARGV  not_after, ttl, head and body
-- Returns {now, 1}, or {now, 0, the record that stands}.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if now > tonumber(ARGV[1]) and ARGV[1] ~= '0' then return { now } end
local old = redis.call('SET', KEYS[1], now .. ',' .. now .. '\n' .. ARGV[3], 'NX', 'GET', 'PX', ARGV[2])
if old then return { now, 0, old } end
return { now, 1 }
