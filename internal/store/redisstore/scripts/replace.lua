-- alone: on the way of every job, where what scripts share would cost more than it saves
-- Puts another record in the place of the one the caller has seen: the compare-and-set by which every step of a
-- job is made.
-- KEYS  record
-- ARGV  not_after, ttl (0: what is left of it), not_before (0: whenever), created (0: now), times and head as seen,
--       head and body
-- Returns {now, 1}, or {now, 0, the record that stands or false}, or {now, -2} when it is too early.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if now > tonumber(ARGV[1]) and ARGV[1] ~= '0' then return { now } end
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[5] - 1) ~= ARGV[5] then
  return { now, 0, redis.call('GET', KEYS[1]) }
end
if tonumber(ARGV[3]) > now then return { now, -2 } end
local record = (ARGV[4] == '0' and now or ARGV[4]) .. ',' .. now .. '\n' .. ARGV[6]
if ARGV[2] == '0' then
  redis.call('SET', KEYS[1], record, 'KEEPTTL')
else
  redis.call('SET', KEYS[1], record, 'PX', ARGV[2])
end
return { now, 1 }
