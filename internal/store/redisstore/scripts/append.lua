-- Adds the message of an utterance to a session's outbox. Messages enter the stream when all before them have; an
-- index that was appended before is left as it is.
-- KEYS  out, waiting
-- ARGV  not_after, index, body, keep
-- Returns {now, the position of the last message in the stream}.
local now = clock()
if late(now) then return { now } end
local next_index = redis.call('XLEN', KEYS[1])
if tonumber(ARGV[2]) >= next_index then redis.call('HSETNX', KEYS[2], ARGV[2], ARGV[3]) end
while true do
  local body = redis.call('HGET', KEYS[2], tostring(next_index))
  if not body then break end
  redis.call('XADD', KEYS[1], (next_index + 1) .. '-0', 'b', body)
  redis.call('HDEL', KEYS[2], tostring(next_index))
  next_index = next_index + 1
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return { now, next_index }
