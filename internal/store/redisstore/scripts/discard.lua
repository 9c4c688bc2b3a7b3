-- Drops dead letters: those that are named, or all.
-- KEYS  dead letters
-- ARGV  not_after, ids
-- Returns {now, how many there were}.
local now = clock()
if late(now) then return { now } end
local n = 0
if #ARGV == 1 then
  n = redis.call('XLEN', KEYS[1])
  redis.call('DEL', KEYS[1])
end
for i = 2, #ARGV do n = n + redis.call('XDEL', KEYS[1], ARGV[i]) end
if redis.call('XLEN', KEYS[1]) == 0 then redis.call('DEL', KEYS[1]) end
return { now, n }
