-- Starts a new epoch of a node. Leases of jobs that the node lists move to it; the others are orphans, except reservations that are so
-- young that their jobs may still be on their way. Its marks are removed: they are about the epoch before.
-- KEYS  meta, leases, unavailable
-- ARGV  not_after, presence in ms, reserved ttl in ms, attempt in ms, body, healthy, offline, max, load, lists, counts, current,
--       returning, connection, require secret, secret hash, tenant, drained, job|attempt …
-- Returns {now, -1} if the node is present and this is not its registration, otherwise {now, known, {epoch, rev, ver, drained, disconnected, admission}, occupancy, kept, orphans, strays, cancels}.
local now = clock()
if is_late(now) then return { now } end
local presence, reserved_ttl, attempt = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local lists, counts, current, returning = ARGV[10], ARGV[11], ARGV[12], ARGV[13]
local listed, listed_count = listed_jobs(19)

local old = read_node(KEYS[1], 'epoch', 'rev', 'ver', 'drained', 'seen', 'offline', 'body', 'admission')
local foreign_jobs, is_other = {}, false
if old.epoch then
  local body = old.body or ''
  local read, declared = pcall(cjson.decode, string.match(body, BODY_HEAD) or body)
  if not read or type(declared) ~= 'table' then declared = {} end -- then it is not known to be this node
  is_other = (declared.tenant or '') ~= ARGV[17] or ARGV[15] == '1' and declared.secret ~= ARGV[16]
  if is_other and old.offline ~= '1' and now - tonumber(old.seen) < presence then return { now, -1 } end
  if is_other then -- the jobs of the node that had the name are not its jobs
    for job in pairs(listed) do foreign_jobs[#foreign_jobs + 1] = job end
    listed, listed_count = {}, 0
  end
end
local t = redis.call('TIME')
local epoch = t[1] * 1000000 + t[2]
local rev, ver, drained = 1, 1, ARGV[18]
if old.epoch then
  epoch = math.max(tonumber(old.epoch) + 1, epoch)
  rev, ver, drained = tonumber(old.rev) + 1, tonumber(old.ver) + 1, old.drained
end
epoch = string.format('%.0f', epoch)

local tick = tick_of(now)
local expires = expiry(tick, presence)
local writes, removed, known, kept, orphans, strays, cancels = {}, {}, {}, {}, {}, {}, foreign_jobs
local members = read_leases(KEYS[2])
for i = 1, #members, 2 do
  local member, lease = members[i], unpack_score(members[i + 1])
  local job, adopted = parse_member(member)
  known[job] = true
  if lists == '1' and listed[job] then
    if lease.state == REVOKED or adopted then
      writes[#writes + 1] = pack_score(expires, lease.reserved, lease.state + (lease.state == REVOKED and ONCE or lease.omitted))
      if lease.state == REVOKED then
        cancels[#cancels + 1] = job
      else
        strays[#strays + 1] = member
        strays[#strays + 1] = string.format('%.0f', writes[#writes])
      end
    else
      writes[#writes + 1] = pack_score(expires, lease.reserved, RUNNING + NEVER)
      kept[#kept + 1] = member
      kept[#kept + 1] = string.format('%.0f', writes[#writes])
    end
    writes[#writes + 1] = member
  elseif lease.state == REVOKED or adopted then
    -- The list may have been written before the job arrived. Heartbeats decide, because a repeated one is recognised.
    if adopted or lists ~= '1' or lease.omitted == ONCE then
      removed[#removed + 1] = member
    else
      writes[#writes + 1] = pack_score(expires, lease.reserved, lease.state + lease.omitted)
      writes[#writes + 1] = member
    end
  elseif is_other then
    -- Another registration of the same node could list it: it can only be cancelled.
    orphans[#orphans + 1] = member
    orphans[#orphans + 1] = members[i + 1]
    writes[#writes + 1] = pack_score(expires, lease.reserved, REVOKED + ONCE)
    writes[#writes + 1] = member
  elseif is_young_reservation(lease, tick, reserved_ttl) then
    writes[#writes + 1] = pack_score(expires, lease.reserved, lease.state + lease.omitted)
    writes[#writes + 1] = member
  else
    orphans[#orphans + 1] = member
    orphans[#orphans + 1] = members[i + 1]
  end
end
if lists == '1' then
  for _, stray in ipairs(adopt_strays(tick, presence, listed, known, writes)) do strays[#strays + 1] = stray end
end
write_leases(KEYS[2], writes)
remove_leases(KEYS[2], removed)
redis.call('DEL', KEYS[3])

local ready = ready_flag(ARGV[6], drained, '0')
local held = 0
if returning == '1' and lists ~= '1' then held = now + attempt end
local foreign = foreign_work(tick, KEYS[2], lists, listed_count, counts, current)
redis.call('HSET', KEYS[1], 'epoch', epoch, 'rev', rev, 'ver', ver, 'drained', drained, 'body', ARGV[5],
  'healthy', ARGV[6], 'offline', ARGV[7], 'ready', ready, 'max', ARGV[8], 'load', ARGV[9], 'foreign', foreign,
  'seen', now, 'connection', ARGV[14], 'disconnected', '0', 'held', held, 'seq', '0',
  'grant', grant_key(epoch, rev, ready, held), 'capacity', capacity_of(ARGV[8], old.admission, foreign))
local meta = { max = ARGV[8], foreign = foreign, ready = ready, seen = now, held = held, admission = old.admission }
return {
  now, old.epoch and 1 or 0, { epoch, tostring(rev), tostring(ver), drained, '0', old.admission or '' },
  occupancy(now, tick, meta, KEYS[2], presence), kept, orphans, strays, cancels,
}
