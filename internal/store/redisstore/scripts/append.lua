-- Adds the message of an utterance to a session's outbox. Messages enter the stream when all before them have; an
-- index that was appended before is left as it is.
-- KEYS  out, waiting, state
-- ARGV  not_after, index, body, keep, epoch and owner of whoever alone may add it, or 0 and nothing
-- Returns {now, 1 if it was added, 2 if there was one, 0 if it was refused, the position of the last message, the owner}.
local now = clock()
if late(now) then return { now } end
local epoch, owner = claim(KEYS[3])
local next_index, own = next_of(KEYS[1]), tonumber(ARGV[5])
if own ~= 0 and (epoch > own or epoch == own and owner ~= ARGV[6]) then return { now, 0, next_index, owner } end
local added = tonumber(ARGV[2]) >= next_index and redis.call('HSETNX', KEYS[2], ARGV[2], ARGV[3]) == 1
next_index = advance(KEYS[1], KEYS[2], next_index)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return { now, added and 1 or 2, next_index, owner }
