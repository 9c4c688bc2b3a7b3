-- Puts a session's state in the place of what there is, if the session is the caller's.
-- KEYS  state, out, waiting
-- ARGV  not_after, epoch, incarnation, owner, 1 to take it over, body, keep, messages the owner knows of, the last message
--       that the client has, the body that is taken over
-- Returns {now, 1 if it is the caller's, 0 if not}.
local now = clock()
if late(now) then return { now } end
local epoch, incarnation, owner = claim(KEYS[1])
local own, state = tonumber(ARGV[2]), ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4] .. '\n' .. ARGV[6]
if epoch > 0 and incarnation ~= ARGV[3] then return { now, 0 } end
local held
if ARGV[5] == '1' then
  -- Only what was read is taken over: its owner may have gone on meanwhile. An instance that takes it twice lost the first
  -- reply; another that has the same name is not the same.
  local there = redis.call('GET', KEYS[1])
  held = there == state or epoch == own - 1 and (there and string.match(there, '\n(.*)$') or '') == ARGV[10]
else
  -- A store that has forgotten the last moment takes the word of the instance that has it since.
  held = epoch == own and owner == ARGV[4] or epoch < own
end
if not held then return { now, 0 } end
redis.call('SET', KEYS[1], state, 'PX', ARGV[7])
-- Its messages live as long as it does. What was forgotten of them is counted on from what their owner knows; what the
-- client has is dropped.
local box, known, acked = outbox(KEYS[3]), tonumber(ARGV[8]), tonumber(ARGV[9])
local changed = false
if box.next < known then
  box.next = known
  advance(KEYS[2], KEYS[3], box)
  changed = true
end
if acked > box.acked then
  box.acked = acked
  redis.call('XTRIM', KEYS[2], 'MINID', acked + 1)
  changed = true
end
if changed then write_outbox(KEYS[3], box) end
redis.call('PEXPIRE', KEYS[2], ARGV[7])
redis.call('PEXPIRE', KEYS[3], ARGV[7])
return { now, 1 }
