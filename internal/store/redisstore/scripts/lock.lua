-- Takes or renews a lock. The fence grows with every change of holder, also after a holder let it lapse.
-- KEYS  lock, fence
-- ARGV  not_after, holder, ttl, fence ttl
-- Returns {now, 1 if held, 0 if not, fence}.
local now = clock()
if late(now) then return { now } end
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[2] then return { now, 0, tonumber(redis.call('GET', KEYS[2]) or 0) } end
local fence
if holder then
  fence = tonumber(redis.call('GET', KEYS[2]) or 0)
else
  -- The clock keeps the fence growing when the counter itself was forgotten.
  fence = math.max(tonumber(redis.call('GET', KEYS[2]) or 0) + 1, now)
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', ARGV[4])
return { now, 1, fence }
