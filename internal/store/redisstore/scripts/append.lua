-- Adds the message of an utterance to a session's outbox. Messages enter the stream when all before them have; an
-- index that was appended before is left as it is. Nothing is added for an incarnation whose name has another by now.
-- KEYS  out, waiting, state
-- ARGV  not_after, incarnation, index, body, keep, max bytes, epoch and owner of the instance that alone may add it, or 0
--       and nothing
-- Returns {now, 1 if it was added, 2 if there was one, 0 if it was refused, the position of the last message, the owner}.
local now = clock()
if late(now) then return { now } end
local epoch, incarnation, owner = claim(KEYS[3])
local index, own = tonumber(ARGV[3]), tonumber(ARGV[7])
local box, there, following = outbox(KEYS[2], ARGV[3], index + 1)
if epoch > 0 and incarnation ~= ARGV[2] then return { now, 0, box.next, '' } end
if own ~= 0 and (epoch > own or epoch == own and owner ~= ARGV[8]) then return { now, 0, box.next, owner } end
local before, added = box.next, index >= box.next and not there
if added and index == box.next then
  enter(KEYS[1], box, ARGV[4])
  if following then advance(KEYS[1], KEYS[2], box) end
elseif added then
  redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
end
if box.next > before then
  bound(KEYS[1], box, before, tonumber(ARGV[6]))
  write_outbox(KEYS[2], box)
end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
return { now, added and 1 or 2, box.next, owner }
