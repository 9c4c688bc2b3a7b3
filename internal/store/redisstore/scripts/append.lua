-- Adds the message of an utterance to the outbox of a session. Messages enter the stream in the order of their indexes; an index
-- that has a message keeps it. Nothing is added when another incarnation uses the session's name.
-- KEYS  out, waiting, state
-- ARGV  not_after, incarnation, index, body, ttl in ms, max bytes or 0, epoch and owner if only that owner may add it, else 0 and ''
-- Returns {now, 1 if it was added, 2 if the index had a message, 0 if it was refused, position of the last message, owner}.
local now = clock()
if is_late(now) then return { now } end
local epoch, incarnation, owner = session_owner(KEYS[3])
local index, by_epoch = tonumber(ARGV[3]), tonumber(ARGV[7])
local outbox, waits, next_waits = read_outbox(KEYS[2], ARGV[3], index + 1)
if epoch > 0 and incarnation ~= ARGV[2] then return { now, 0, outbox.next, '' } end
if by_epoch ~= 0 and (epoch > by_epoch or epoch == by_epoch and owner ~= ARGV[8]) then return { now, 0, outbox.next, owner } end
local before, added = outbox.next, index >= outbox.next and not waits
if added and index == outbox.next then
  append_message(KEYS[1], outbox, ARGV[4])
  if next_waits then append_waiting(KEYS[1], KEYS[2], outbox) end
elseif added then
  redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
end
if outbox.next > before then
  trim_outbox(KEYS[1], outbox, before, tonumber(ARGV[6]))
  write_outbox(KEYS[2], outbox)
end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
return { now, added and 1 or 2, outbox.next, owner }
