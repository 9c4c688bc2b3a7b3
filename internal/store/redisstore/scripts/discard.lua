-- include lib_inbox
-- Removes dead letters: those with the ids, or all. A dead letter that another instance has claimed stays.
-- KEYS  dead letters, claims
-- ARGV  not_after, instance or '', ids
-- Returns {now, how many were removed}.
local now = clock()
if is_late(now) then return { now } end
local ids, removed = {}, 0
if #ARGV == 2 then
  -- There are MAX_DEAD_LETTERS at most, about: deadletter.lua trims them.
  for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do ids[#ids + 1] = entry[1] end
else
  for i = 3, #ARGV do ids[#ids + 1] = ARGV[i] end
end
for _, id in ipairs(ids) do
  local expires, claimant = read_claim(KEYS[2], id)
  if expires <= now or claimant == ARGV[2] then
    removed = removed + redis.call('XDEL', KEYS[1], id)
    redis.call('HDEL', KEYS[2], id)
  end
end
if redis.call('XLEN', KEYS[1]) == 0 then redis.call('DEL', KEYS[1]) end
return { now, removed }
