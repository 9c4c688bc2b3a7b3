-- Acquires or renews a lock. The fence grows with every change of holder, also after the lock expired.
-- KEYS  lock, fence
-- ARGV  not_after, holder, ttl in ms, ttl of the fence in ms
-- Returns {now, 1 if the holder has it, else 0, fence}.
local now = clock()
if is_late(now) then return { now } end
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[2] then return { now, 0, tonumber(redis.call('GET', KEYS[2]) or 0) } end
local fence
if holder then
  fence = tonumber(redis.call('GET', KEYS[2]) or 0)
else
  -- The clock keeps the fence growing after the counter itself has expired.
  fence = math.max(tonumber(redis.call('GET', KEYS[2]) or 0) + 1, now)
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', ARGV[4])
return { now, 1, fence }
