-- Puts another record in the place of the one the caller has seen: the compare-and-set by which every step of a
-- job is made.
-- KEYS  record
-- ARGV  not_after, ttl (0: what is left of it), not_before (0: whenever), seen head, head, body
--       (in the head "@N" in quotes stands for the time N ms from now)
-- Returns {now, 1}, or {now, 0, the record that stands or false}, or {now, -2} when early.
local now = clock()
if late(now) then return { now } end
local old = redis.call('GET', KEYS[1])
if not old or string.sub(old, 1, #ARGV[4] + 1) ~= ARGV[4] .. '\n' then return { now, 0, old } end
if tonumber(ARGV[3]) > now then return { now, -2 } end
local head = string.gsub(ARGV[5], '"@(%d+)"', function(ms) return string.format('%.0f', now + tonumber(ms)) end)
if ARGV[2] == '0' then
  redis.call('SET', KEYS[1], head .. '\n' .. ARGV[6], 'KEEPTTL')
else
  redis.call('SET', KEYS[1], head .. '\n' .. ARGV[6], 'PX', ARGV[2])
end
return { now, 1 }
