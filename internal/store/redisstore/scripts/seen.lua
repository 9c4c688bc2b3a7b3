-- Notes when nodes were last heard; older news than what is known changes nothing.
-- KEYS  last_seen
-- ARGV  not_after, node, age, …
-- Returns {now, 1}.
local now = clock()
if late(now) then return { now } end
local news = {}
for i = 2, #ARGV, 2 do
  news[#news + 1] = now - tonumber(ARGV[i + 1])
  news[#news + 1] = ARGV[i]
end
for i = 1, #news, 2000 do
  redis.call('ZADD', KEYS[1], 'GT', unpack(news, i, math.min(i + 1999, #news)))
end
return { now, 1 }
