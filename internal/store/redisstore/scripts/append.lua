-- Adds the message of an utterance to a session's outbox. Messages enter the stream when all before them have; an
-- index that was appended before is left as it is. An entry's name is its position, which is one more than its index.
-- KEYS  out, waiting, state
-- ARGV  not_after, index, body, keep, epoch and owner of whoever alone may add it, or 0 and nothing
-- Returns {now, 1 if it was added or there, 0 if it was refused, the position of the last message, the owner}.
local KEEP, STEP = 1024, 256 -- how many messages are kept for whoever comes back, and how often the rest is dropped
local now = clock()
if late(now) then return { now } end
local epoch, owner = claim(KEYS[3])
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local next_index = last and tonumber(string.match(last[1], '^%d+')) or 0
if ARGV[5] ~= '0' and epoch ~= 0 and (epoch ~= tonumber(ARGV[5]) or owner ~= ARGV[6]) then
  return { now, 0, next_index, owner }
end
if tonumber(ARGV[2]) >= next_index then redis.call('HSETNX', KEYS[2], ARGV[2], ARGV[3]) end
while true do
  local body = redis.call('HGET', KEYS[2], tostring(next_index))
  if not body then break end
  redis.call('XADD', KEYS[1], (next_index + 1) .. '-0', 'b', body)
  redis.call('HDEL', KEYS[2], tostring(next_index))
  next_index = next_index + 1
  if next_index % STEP == 0 and next_index > KEEP then redis.call('XTRIM', KEYS[1], 'MINID', next_index - KEEP) end
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return { now, 1, next_index, owner }
