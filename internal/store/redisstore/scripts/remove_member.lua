-- Removes a job or a session from those of its tenant, and gives tokens back that it took.
-- KEYS  members, rates
-- ARGV  not_after, member, cost of the dispatch in ms that is given back or 0, the same of the audio
-- Returns {now, 1 if it was a member, else 0}.
local now = clock()
if is_late(now) then return { now } end
local removed = redis.call('ZREM', KEYS[1], ARGV[2])
if removed == 1 and (ARGV[3] ~= '0' or ARGV[4] ~= '0') then
  local full = redis.call('HMGET', KEYS[2], 'dispatches', 'audio')
  if tonumber(full[1] or '') and tonumber(full[2] or '') then
    redis.call('HSET', KEYS[2], 'dispatches', string.format('%.3f', full[1] - ARGV[3]), 'audio', string.format('%.3f', full[2] - ARGV[4]))
  end
end
return { now, removed }
