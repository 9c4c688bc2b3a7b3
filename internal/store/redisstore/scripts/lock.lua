-- Acquires or renews a lock. The fence grows with every change of holder, also after the lock expired.
-- KEYS  lock, fence
-- ARGV  not_after, holder, ttl in ms, ttl of the fence in ms
-- Returns {now, 1 if the holder has it, else 0, fence}.
local now = clock()
if is_late(now) then return { now } end
local current = redis.call('MGET', KEYS[1], KEYS[2])
local holder, fence = current[1], read_number(current[2])
if holder and holder ~= ARGV[2] then return { now, 0, fence } end
-- The clock keeps the fence growing after the counter itself has expired, or cannot be read.
if not holder or fence == 0 then fence = math.max(fence + 1, now) end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', ARGV[4])
return { now, 1, fence }
