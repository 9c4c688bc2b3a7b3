-- Takes a slot of a node, if it certainly has one.
-- KEYS  meta, leases
-- ARGV  not_after, member, epoch, revision, presence
-- Returns {now, verdict, in flight, max}. Repeated, it answers OK and takes nothing more. It deletes nothing.
local member, epoch, revision, presence = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local now = clock()
if late(now) then return { now } end
local meta = hash(KEYS[1], 'epoch', 'rev', 'ready', 'max', 'foreign', 'seen', 'held')
if not meta.epoch then return { now, UNKNOWN_NODE, 0, 0 } end

local tick, max = tick_of(now), tonumber(meta.max)
local taken = redis.call('ZCOUNT', KEYS[2], living(tick), '+inf') + tonumber(meta.foreign)
local verdict = OK
if meta.epoch ~= epoch then
  verdict = STALE_EPOCH
elseif meta.rev ~= revision then
  verdict = STALE_REVISION
elseif closed(now, meta.ready, meta.seen, meta.held, presence) then
  verdict = NOT_READY
elseif max <= 0 then
  verdict = NO_CAPACITY
elseif taken >= max then
  verdict = FULL
end

local score = pack(expiry(tick, presence), tick, RESERVED)
if verdict == OK and redis.call('ZADD', KEYS[2], 'NX', score, member) == 1 then
  return { now, OK, taken + 1, max }
end
-- Either it is refused or its member is there: the reply to an earlier call was lost, or it lapsed.
local own = redis.call('ZSCORE', KEYS[2], member)
if own and unpack_score(own).expires > tick then return { now, OK, taken, max } end
if verdict == OK then
  redis.call('ZADD', KEYS[2], score, member)
  taken = taken + 1
end
return { now, verdict, taken, max }
