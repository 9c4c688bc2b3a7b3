-- Renews the presence of a node that has answered a ping, and its leases. All else stays as its last heartbeat left it: a heartbeat that says
-- nothing would forget the work that is not ours.
-- KEYS  meta, leases
-- ARGV  not_after, presence in ms, reserved ttl in ms, attempt in ms, epoch, 1 if the last heartbeat has listed the jobs
-- Returns {now, verdict, 1 if the node was silent until now}.
local now = clock()
if is_late(now) then return { now } end
local presence, reserved_ttl, attempt = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local meta = read_node(KEYS[1], 'epoch', 'seen')
if not meta.epoch or tonumber(ARGV[5]) > tonumber(meta.epoch) then return { now, UNKNOWN_NODE, 0 } end
if ARGV[5] ~= meta.epoch then return { now, STALE_EPOCH, 0 } end

local tick = tick_of(now)
local expires = expiry(tick, presence)
local max_busy = math.min(expiry(0, reserved_ttl + attempt), AGES - 1) -- as in heartbeat
local writes = {}
local members = read_leases(KEYS[2])
for i = 1, #members, 2 do
  local lease = unpack_score(members[i + 1])
  local is_revoked = lease.state == REVOKED
  -- A parked lease takes no slot, and an orphan's job is not on the node.
  if lease.state ~= PARKED and (is_revoked or lease.omitted ~= ORPHAN) then
    local until_tick = expires
    if ARGV[6] ~= '1' and (is_revoked or is_older(lease, tick, attempt)) then
      until_tick = math.max(lease.expires, math.min(expires, lease.reserved + max_busy))
    end
    if until_tick > tick and until_tick ~= lease.expires then
      writes[#writes + 1] = pack_score(until_tick, lease.reserved, lease.state + lease.omitted)
      writes[#writes + 1] = members[i]
    end
  end
end
write_leases(KEYS[2], writes)
redis.call('HSET', KEYS[1], 'seen', now)
return { now, OK, now - tonumber(meta.seen) >= presence and 1 or 0 }
