-- alone: on the way of every job, where what scripts share would cost more than it saves
-- Takes a slot of a node, if it certainly has one.
-- KEYS  meta, leases
-- ARGV  not_after, member, epoch, revision, presence
-- Returns {now, verdict, in flight, max}. Repeated, it answers OK and takes nothing more. It deletes nothing.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if now > tonumber(ARGV[1]) and ARGV[1] ~= '0' then return { now } end
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'rev', 'ready', 'seen', 'held', 'max', 'foreign')
if not meta[1] then return { now, 8, 0, 0 } end -- UNKNOWN_NODE

-- lib.lua says how a score holds a lease: 1048576 is what one tick of its expiry counts.
local tick, presence, max = math.floor((now - 1704067200000) / 100), tonumber(ARGV[5]), tonumber(meta[6])
local taken = redis.call('ZCOUNT', KEYS[2], (tick + 1) * 1048576, '+inf') + meta[7]
local verdict = 1 -- OK
if meta[1] ~= ARGV[3] then
  verdict = 5 -- STALE_EPOCH
elseif meta[2] ~= ARGV[4] then
  verdict = 6 -- STALE_REVISION
elseif meta[3] ~= '1' or now - meta[4] >= presence or tonumber(meta[5]) > now then
  verdict = 3 -- NOT_READY
elseif max <= 0 then
  verdict = 4 -- NO_CAPACITY
elseif taken >= max then
  verdict = 2 -- FULL
end

local life = math.ceil(presence / 100) + 1
local score = ((tick + life) * 65536 + life) * 16
if verdict == 1 and redis.call('ZADD', KEYS[2], 'NX', score, ARGV[2]) == 1 then
  return { now, 1, taken + 1, max }
end
-- Either it is refused or its member is there: the reply to an earlier call was lost, or it lapsed.
local own = redis.call('ZSCORE', KEYS[2], ARGV[2])
if own and tonumber(own) >= (tick + 1) * 1048576 then return { now, 1, taken, max } end
if verdict == 1 then
  redis.call('ZADD', KEYS[2], score, ARGV[2])
  taken = taken + 1
end
return { now, verdict, taken, max }
