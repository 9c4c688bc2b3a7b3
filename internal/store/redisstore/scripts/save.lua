-- Puts a session's state in the place of what there is, if the session is the caller's.
-- KEYS  state, out, waiting
-- ARGV  not_after, epoch, owner, 1 to take it over, body, keep, messages the owner knows of, the body that is taken over
-- Returns {now, 1 if it is the caller's, 0 if not}.
local now = clock()
if late(now) then return { now } end
local epoch, owner = claim(KEYS[1])
local own, state = tonumber(ARGV[2]), ARGV[2] .. ' ' .. ARGV[3] .. '\n' .. ARGV[5]
local held
if ARGV[4] == '1' then
  -- Only what was read is taken over: its owner may have gone on meanwhile. Who takes it twice lost the first reply;
  -- another who calls itself the same is not the same.
  local there = redis.call('GET', KEYS[1])
  held = there == state or epoch == own - 1 and (there and string.match(there, '\n(.*)$') or '') == ARGV[8]
else
  -- A store that has forgotten the last moment takes the word of whoever has it since.
  held = epoch == own and owner == ARGV[3] or epoch < own
end
if not held then return { now, 0 } end
redis.call('SET', KEYS[1], state, 'PX', ARGV[6])
-- Its messages live as long as it does. What was forgotten of them is counted on from what their owner knows.
local next_index, known = next_of(KEYS[2]), tonumber(ARGV[7])
if next_index < known then
  redis.call('XADD', KEYS[2], known .. '-0', 'b', '')
  advance(KEYS[2], KEYS[3], known)
end
redis.call('PEXPIRE', KEYS[2], ARGV[6])
redis.call('PEXPIRE', KEYS[3], ARGV[6])
return { now, 1 }
