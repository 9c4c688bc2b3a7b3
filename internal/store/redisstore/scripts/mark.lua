-- Marks a service of a node as unavailable for a while, and removes expired marks.
-- KEYS  meta, unavailable
-- ARGV  not_after, service, duration in ms
-- Returns {now, 1, or NOT_REGISTERED}.
local now = clock()
if is_late(now) then return { now } end
if redis.call('EXISTS', KEYS[1]) == 0 then return { now, NOT_REGISTERED } end
local marks = redis.call('HGETALL', KEYS[2])
local latest = now + tonumber(ARGV[3])
for i = 1, #marks, 2 do
  if tonumber(marks[i + 1]) <= now then
    redis.call('HDEL', KEYS[2], marks[i])
  else
    latest = math.max(latest, tonumber(marks[i + 1]))
  end
end
redis.call('HSET', KEYS[2], ARGV[2], now + tonumber(ARGV[3]))
redis.call('PEXPIREAT', KEYS[2], latest)
return { now, 1 }
