-- alone: on the way of every job, where what scripts share would cost more than it saves
-- Takes a slot of a node, if it certainly has one.
-- KEYS  meta, leases
-- ARGV  not_after, member, epoch.revision, presence
-- Returns {now, verdict, slots left}, or in brief OK with the slots that are left. Repeated, it answers OK and takes
-- nothing more. It deletes nothing.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if now > tonumber(ARGV[1]) and ARGV[1] ~= '0' then return { now } end

-- lib.lua says how a score holds a lease: 1048576 is what one tick of its expiry counts.
local tick, presence = math.floor((now - 1704067200000) / 100), tonumber(ARGV[4])
local life = math.ceil(presence / 100) + 1
local score = string.format('%d', ((tick + life) * 65536 + life) * 16)

-- Most of the time the node is as it was chosen, and has room even if every name in its set still counted.
local gate = redis.call('HMGET', KEYS[1], 'gate', 'seen', 'room')
if gate[1] == ARGV[3] and now - gate[2] < presence then
  local left = gate[3] - redis.call('ZCARD', KEYS[2]) - 1
  if left >= 0 and redis.call('ZADD', KEYS[2], 'NX', score, ARGV[2]) == 1 then
    if left < 256 then return ((now - 1704067200000) * 16 + 1) * 256 + left end
    return { now, 1, left }
  end
end

local meta = redis.call('HMGET', KEYS[1], 'epoch', 'rev', 'ready', 'held', 'max')
if not meta[1] then return { now, 8, 0 } end -- UNKNOWN_NODE
local living = string.format('%d', (tick + 1) * 1048576)
local left = gate[3] - redis.call('ZCOUNT', KEYS[2], living, '+inf')
-- It may be there: the reply to an earlier call was lost.
local own = redis.call('ZSCORE', KEYS[2], ARGV[2])
if own and tonumber(own) >= tonumber(living) then return { now, 1, math.max(0, left) } end

local epoch, revision = string.match(ARGV[3], '^(.*)%.(.*)$')
local verdict = 1 -- OK
if meta[1] ~= epoch then
  verdict = 5 -- STALE_EPOCH
elseif meta[2] ~= revision then
  verdict = 6 -- STALE_REVISION
elseif meta[3] ~= '1' or now - gate[2] >= presence or tonumber(meta[4]) > now then
  verdict = 3 -- NOT_READY
elseif tonumber(meta[5]) <= 0 then
  verdict = 4 -- NO_CAPACITY
elseif left <= 0 then
  verdict = 2 -- FULL
end
if verdict == 1 then
  redis.call('ZADD', KEYS[2], score, ARGV[2])
  left = left - 1
end
return { now, verdict, math.max(0, left) }
