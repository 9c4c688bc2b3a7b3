-- standalone: it runs for every job, and the library would cost more than it saves
-- Takes a slot of a node, if the node certainly has one. It deletes nothing, and a repeated call answers OK and takes no second slot.
-- KEYS  meta, leases
-- ARGV  not_after, member, epoch.revision, presence in ms
-- Returns {now, verdict, free slots}, or for OK a compact reply with the free slots as its count.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if now > tonumber(ARGV[1]) and ARGV[1] ~= '0' then return { now } end

-- lib.lua describes the score of a lease.
local tick, presence = math.floor((now - EPOCH) / TICK), tonumber(ARGV[4])
local ttl = math.ceil(presence / TICK) + 1
local score = string.format('%d', ((tick + ttl) * AGES + ttl) * CODES)

-- The usual case: the node is as it was chosen, and has a free slot even if every member of its set were live.
local grant = redis.call('HMGET', KEYS[1], 'grant', 'seen', 'capacity')
if grant[1] == ARGV[3] and now - grant[2] < presence then
  local free = grant[3] - redis.call('ZCARD', KEYS[2]) - 1
  if free >= 0 and redis.call('ZADD', KEYS[2], 'NX', score, ARGV[2]) == 1 then
    if free < COMPACT_COUNTS then return ((now - EPOCH) * COMPACT_CODES + OK) * COMPACT_COUNTS + free end
    return { now, OK, free }
  end
end

local meta = redis.call('HMGET', KEYS[1], 'epoch', 'rev', 'ready', 'held', 'max')
if not meta[1] then return { now, UNKNOWN_NODE, 0 } end
local live = string.format('%d', (tick + 1) * AGES * CODES)
local free = grant[3] - redis.call('ZCOUNT', KEYS[2], live, '+inf')
-- The lease may exist: the reply to an earlier call was lost.
local own = redis.call('ZSCORE', KEYS[2], ARGV[2])
if own and tonumber(own) >= tonumber(live) then return { now, OK, math.max(0, free) } end

local epoch, revision = string.match(ARGV[3], '^(.*)%.(.*)$')
local verdict = OK
if meta[1] ~= epoch then
  verdict = STALE_EPOCH
elseif meta[2] ~= revision then
  verdict = STALE_REVISION
elseif meta[3] ~= '1' or now - grant[2] >= presence or tonumber(meta[4]) > now then
  verdict = NOT_READY
elseif tonumber(meta[5]) <= 0 then
  verdict = NO_CAPACITY
elseif free <= 0 then
  verdict = FULL
end
if verdict == OK then
  redis.call('ZADD', KEYS[2], score, ARGV[2])
  free = free - 1
end
return { now, verdict, math.max(0, free) }
