-- with letters
-- Drops dead letters: those that are named, or all. One that somebody else is replaying stays.
-- KEYS  dead letters, claims
-- ARGV  not_after, who, ids
-- Returns {now, how many were dropped}.
local now = clock()
if late(now) then return { now } end
local ids, n = {}, 0
if #ARGV == 2 then
  -- There are about 10,000 at most: condemn sees to that.
  for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do ids[#ids + 1] = entry[1] end
else
  for i = 3, #ARGV do ids[#ids + 1] = ARGV[i] end
end
for _, id in ipairs(ids) do
  local untill, who = claim_of(KEYS[2], id)
  if untill <= now or who == ARGV[2] then
    n = n + redis.call('XDEL', KEYS[1], id)
    redis.call('HDEL', KEYS[2], id)
  end
end
if redis.call('XLEN', KEYS[1]) == 0 then redis.call('DEL', KEYS[1]) end
return { now, n }
