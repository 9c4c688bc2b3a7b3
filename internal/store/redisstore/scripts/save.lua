-- Puts a session's state in the place of what there is, if the session is the caller's.
-- KEYS  state, out, waiting
-- ARGV  not_after, epoch, owner, 1 to take it over, body, keep, messages the owner knows of
-- Returns {now, 1 if it is the caller's, 0 if not}.
local now = clock()
if late(now) then return { now } end
local epoch, owner = claim(KEYS[1])
local own, take = tonumber(ARGV[2]), ARGV[4] == '1'
local state = ARGV[2] .. ' ' .. ARGV[3] .. '\n' .. ARGV[5]
local held = epoch == own and owner == ARGV[3]
-- Who takes it twice lost the first reply; another who calls itself the same is not the same.
if held and take then held = redis.call('GET', KEYS[1]) == state end
if not held and not (take and epoch == own - 1) and not (not take and epoch == 0) then return { now, 0 } end
redis.call('SET', KEYS[1], state, 'PX', ARGV[6])
-- Its messages live as long as it does. If they were forgotten, they are counted on from what their owner knows.
if redis.call('PEXPIRE', KEYS[2], ARGV[6]) == 0 and tonumber(ARGV[7]) > 0 then
  redis.call('XADD', KEYS[2], ARGV[7] .. '-0', 'b', '')
  redis.call('PEXPIRE', KEYS[2], ARGV[6])
end
redis.call('PEXPIRE', KEYS[3], ARGV[6])
return { now, 1 }
