-- Renews the presence of a node and its leases in one step, and reports the leases and jobs that do not match. The list of a node that
-- sends one is authoritative: listed leases are renewed whatever the clock says, and an omitted one is an orphan at the second
-- omission (the first may come from a heartbeat that was written before the job arrived). A node that never lists has all its leases
-- renewed for as long as it may be working on their jobs, also when the jobs have ended or moved.
-- KEYS  meta, leases
-- ARGV  not_after, presence in ms, reserved ttl in ms, attempt in ms, epoch or 0, seq or 0, repeat, known version as epoch@version,
--       load, lists, counts, current, declared, body, ver, rev, healthy, offline, max, on_behalf, job|attempt …
--       (body to max are the new declaration; they are used if declared is 1 and the node still has the known version;
--       on_behalf is 1 if another party reports for the node: the time it was last seen stays as it is)
-- Returns {now, verdict, {epoch, rev, ver, drained, disconnected, admission, body or false if it is the known one, ms since it was
--       seen, 1 if it was silent until now}, occupancy, orphans, overdue, strays, cancels}, or {now, verdict} when the verdict is not OK.
local now = clock()
if is_late(now) then return { now } end
local presence, reserved_ttl, attempt = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local epoch, seq, is_repeat, known_version = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local lists, counts, current = ARGV[10], ARGV[11], ARGV[12]
local listed, listed_count = listed_jobs(21)

local meta = read_node(KEYS[1], 'epoch', 'rev', 'ver', 'drained', 'seen', 'seq', 'held', 'ready', 'max', 'offline', 'disconnected',
  'admission')
if not meta.epoch then return { now, UNKNOWN_NODE } end
-- If the stored epoch is the lower one, Redis has lost the registration, or what it holds is malformed: the node has to register again.
if tonumber(epoch) > tonumber(meta.epoch) then return { now, UNKNOWN_NODE } end
if epoch ~= '0' and epoch ~= meta.epoch then return { now, STALE_EPOCH } end
-- After so long a silence it may be another process, which numbers its heartbeats from 1.
local was_silent = now - tonumber(meta.seen) >= presence
if was_silent then meta.seq = '0' end
if seq ~= '0' and tonumber(seq) < tonumber(meta.seq) then return { now, TOO_LATE } end
local repeated = is_repeat == '1' or seq ~= '0' and seq == meta.seq
if tonumber(seq) > tonumber(meta.seq) then meta.seq = seq end
if lists == '1' or tonumber(meta.held) <= now then meta.held = 0 end

local seen = ARGV[20] == '1' and tonumber(meta.seen) or now
local fields = { 'seen', seen, 'seq', meta.seq, 'load', ARGV[9], 'held', meta.held }
local body = false
local unchanged = meta.epoch .. '@' .. meta.ver == known_version
if ARGV[13] == '1' and unchanged then
  meta.ver, meta.rev, meta.offline, meta.max = ARGV[15], ARGV[16], ARGV[18], ARGV[19]
  meta.ready = ready_flag(ARGV[17], meta.drained, meta.disconnected)
  for _, field in ipairs({ 'body', ARGV[14], 'ver', meta.ver, 'rev', meta.rev, 'healthy', ARGV[17],
    'offline', meta.offline, 'ready', meta.ready, 'max', meta.max }) do
    fields[#fields + 1] = field
  end
elseif not unchanged then
  body = redis.call('HGET', KEYS[1], 'body') -- only then: it may be large
end

local tick = tick_of(now)
local expires = expiry(tick, presence)
-- How long after its reservation a job may occupy a node, in ticks: it is delivered within the reserved ttl, and the node then has
-- the time of an attempt. A score holds at most AGES - 1.
local max_busy = math.min(expiry(0, reserved_ttl + attempt), AGES - 1)
local writes, removed, known = {}, {}, {}
local orphans, overdue, strays, cancels = {}, {}, {}, {}
local members = read_leases(KEYS[2])
for i = 1, #members, 2 do
  local member, lease = members[i], unpack_score(members[i + 1])
  local job, adopted = parse_member(member)
  local is_listed = lists == '1' and listed[job]
  local is_overdue = is_older(lease, tick, attempt)
  known[job] = true

  -- renew extends the lease by one presence.
  local function renew(state, omitted)
    lease.state, lease.omitted, lease.expires = state, omitted, expires
    writes[#writes + 1] = pack_score(expires, lease.reserved, state + omitted)
    writes[#writes + 1] = member
  end
  -- extend renews a lease about which the node says nothing for as long as it may be working on the job.
  local function extend(omitted)
    local extended = math.max(lease.expires, math.min(expires, lease.reserved + max_busy))
    if extended <= tick or extended == lease.expires and omitted == lease.omitted then return end
    lease.expires, lease.omitted = extended, omitted
    writes[#writes + 1] = pack_score(extended, lease.reserved, lease.state + omitted)
    writes[#writes + 1] = member
  end
  -- report adds the lease to one of the lists of the reply.
  local function report(list)
    list[#list + 1] = member
    list[#list + 1] = string.format('%.0f', pack_score(lease.expires, lease.reserved, lease.state + lease.omitted))
  end

  if lease.state == REVOKED then
    -- A job that is still on its way is on no list. Here too, the first omission may come from a heartbeat that was written before
    -- the job arrived. A job that was on a list and is omitted now has ended on the node.
    local omitted = lease.omitted
    local freed = lists == '1' and not is_listed and omitted == ONCE and not repeated
    if is_listed or lists == '1' and not (omitted == NEVER and in_transit(lease, tick, reserved_ttl)) then omitted = ONCE end
    -- A slot that this heartbeat does not free must stay taken until the next one, because the node is grantable until then.
    if not freed and (is_listed or lists == '1' and not repeated) then
      renew(REVOKED, omitted)
    elseif not freed then
      extend(omitted)
      freed = lease.expires <= tick
    end
    if freed then
      removed[#removed + 1] = member
    else
      cancels[#cancels + 1] = job
    end
  elseif adopted then
    if is_listed then
      renew(lease.state, lease.omitted)
      report(strays)
    elseif lists == '1' or lease.expires <= tick then
      removed[#removed + 1] = member
    end
  elseif meta.offline == '1' then
    report(orphans)
  elseif is_listed then
    renew(lease.state == PARKED and RUNNING or lease.state, NEVER)
    if is_overdue then report(overdue) end
  elseif lease.state == PARKED then
    report(orphans)
  elseif lists ~= '1' then
    if is_overdue then extend(lease.omitted) else renew(lease.state, lease.omitted) end
    if is_overdue then report(overdue) end
  elseif is_young_reservation(lease, tick, reserved_ttl) then
    renew(lease.state, lease.omitted)
    if is_overdue then report(overdue) end
  elseif lease.omitted == NEVER or lease.omitted == ONCE and repeated then
    renew(lease.state, ONCE)
    if is_overdue then report(overdue) end
  else
    if lease.omitted ~= ORPHAN then
      lease.omitted = ORPHAN
      writes[#writes + 1] = pack_score(lease.expires, lease.reserved, lease.state + ORPHAN)
      writes[#writes + 1] = member
    end
    report(orphans)
  end
end
if lists == '1' then
  for _, stray in ipairs(adopt_strays(tick, presence, listed, known, writes)) do strays[#strays + 1] = stray end
end
remove_leases(KEYS[2], removed)
write_leases(KEYS[2], writes)

meta.foreign, meta.seen = foreign_work(tick, KEYS[2], lists, listed_count, counts, current), seen
for _, field in ipairs({ 'foreign', meta.foreign, 'capacity', capacity_of(meta.max, meta.admission, meta.foreign),
  'grant', grant_key(meta.epoch, meta.rev, meta.ready, meta.held) }) do
  fields[#fields + 1] = field
end
redis.call('HSET', KEYS[1], unpack(fields))
return {
  now, OK, { meta.epoch, meta.rev, meta.ver, meta.drained, meta.disconnected or '0', meta.admission or '', body, now - seen,
    was_silent and seen == now and 1 or 0 },
  occupancy(now, tick, meta, KEYS[2], presence), orphans, overdue, strays, cancels,
}
