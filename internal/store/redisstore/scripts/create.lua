-- Writes a job's record unless there is one.
-- KEYS  record
-- ARGV  not_after, ttl, head, body
--       (in the head "@N" in quotes stands for the time N ms from now)
-- Returns {now, 1}, or {now, 0, the record that stands}.
local now = clock()
if late(now) then return { now } end
local head = string.gsub(ARGV[3], '"@(%d+)"', function(ms) return string.format('%.0f', now + tonumber(ms)) end)
local old = redis.call('SET', KEYS[1], head .. '\n' .. ARGV[4], 'NX', 'GET', 'PX', ARGV[2])
if old then return { now, 0, old } end
return { now, 1 }
