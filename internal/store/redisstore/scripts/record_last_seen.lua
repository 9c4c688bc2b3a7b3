-- Records when nodes were last seen. A time that is older than the stored one changes nothing.
-- KEYS  last_seen
-- ARGV  not_after, node, age in ms, …
-- Returns {now, 1}.
local now = clock()
if is_late(now) then return { now } end
local times = {}
for i = 2, #ARGV, 2 do
  times[#times + 1] = now - tonumber(ARGV[i + 1])
  times[#times + 1] = ARGV[i]
end
for i = 1, #times, MAX_UNPACK do
  redis.call('ZADD', KEYS[1], 'GT', unpack(times, i, math.min(i + MAX_UNPACK - 1, #times)))
end
return { now, 1 }
