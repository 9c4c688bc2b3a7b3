-- Takes a slot of a node for a probe. It differs from a reservation for a job in what it ignores: that an operator has drained the node, and
-- that its admission grants fewer slots than it declares. A repeated call answers OK and takes no second slot.
-- KEYS  meta, leases
-- ARGV  not_after, member, epoch.revision, presence in ms
-- Returns {now, verdict, free slots}.
local now = clock()
if is_late(now) then return { now } end
local presence, tick = tonumber(ARGV[4]), tick_of(now)
local meta = read_fields(KEYS[1], 'epoch', 'rev', 'healthy', 'disconnected', 'seen', 'held', 'max', 'foreign')
if not meta.epoch then return { now, UNKNOWN_NODE, 0 } end
local live = min_live_score(tick)
local free = tonumber(meta.max) - tonumber(meta.foreign) - redis.call('ZCOUNT', KEYS[2], live, '+inf')
local own = redis.call('ZSCORE', KEYS[2], ARGV[2])
if own and tonumber(own) >= live then return { now, OK, math.max(0, free) } end

local epoch, revision = string.match(ARGV[3], '^(.*)%.(.*)$')
local verdict = OK
if meta.epoch ~= epoch then
  verdict = STALE_EPOCH
elseif meta.rev ~= revision then
  verdict = STALE_REVISION
elseif is_closed(now, ready_flag(meta.healthy, '0', meta.disconnected), meta.seen, meta.held, presence) then
  verdict = NOT_READY
elseif tonumber(meta.max) <= 0 then
  verdict = NO_CAPACITY
elseif free <= 0 then
  verdict = FULL
end
if verdict == OK then
  redis.call('ZADD', KEYS[2], pack_score(expiry(tick, presence), tick, RESERVED + NEVER), ARGV[2])
  free = free - 1
end
return { now, verdict, math.max(0, free) }
