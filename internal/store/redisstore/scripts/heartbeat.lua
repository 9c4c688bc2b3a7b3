-- Renews a node's presence and its leases in one step and says what does not fit. A node that lists its jobs is
-- believed about them: listed leases are renewed whatever the clock says, an unlisted one is an orphan at the
-- second omission (the first may be a heartbeat written before the job arrived). A node that never lists has all its
-- leases renewed for as long as it may be working on their jobs, also when the jobs have ended or moved on.
-- KEYS  meta, leases
-- ARGV  not_after, presence, judge, attempt, epoch or 0, seq or 0, again, known as epoch@version, load, lists, counts, current,
--       declared, body, ver, rev, healthy, offline, max, unheard, job|attempt …
--       (body to max describe the node from now on; they count if declared is 1 and it is still as it was known;
--       unheard is 1 if somebody else says it of the node: when it was last heard stays as it is)
-- Returns {now, verdict, {epoch, rev, ver, drained, away, body or false if it is as it was known, since it was heard}, occupancy,
--       orphans, overdue, strays, cancels}; less of it when the verdict is not OK.
local now = clock()
if late(now) then return { now } end
local presence, judge, attempt = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local epoch, seq, again, known_as = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local lists, counts, current = ARGV[10], ARGV[11], ARGV[12]
local listed, n = listing(21)

local meta = hash(KEYS[1], 'epoch', 'rev', 'ver', 'drained', 'seen', 'seq', 'held', 'ready', 'max', 'offline', 'body', 'away')
if not meta.epoch then return { now, UNKNOWN_NODE } end
if epoch ~= '0' and epoch ~= meta.epoch then return { now, STALE_EPOCH } end
-- Whoever speaks after so long a silence may be another process, which counts anew.
if now - tonumber(meta.seen) >= presence then meta.seq = '0' end
if seq ~= '0' and tonumber(seq) < tonumber(meta.seq) then return { now, TOO_LATE } end
local repeated = again == '1' or seq ~= '0' and seq == meta.seq
if tonumber(seq) > tonumber(meta.seq) then meta.seq = seq end
if lists == '1' or tonumber(meta.held) <= now then meta.held = 0 end

local seen = ARGV[20] == '1' and tonumber(meta.seen) or now
local fields = { 'seen', seen, 'seq', meta.seq, 'load', ARGV[9], 'held', meta.held }
local body = false
local unchanged = meta.epoch .. '@' .. meta.ver == known_as
if ARGV[13] == '1' and unchanged then
  meta.ver, meta.rev, meta.offline, meta.max = ARGV[15], ARGV[16], ARGV[18], ARGV[19]
  meta.ready = grantable(ARGV[17], meta.drained, meta.away)
  for _, field in ipairs({ 'body', ARGV[14], 'ver', meta.ver, 'rev', meta.rev, 'healthy', ARGV[17],
    'offline', meta.offline, 'ready', meta.ready, 'max', meta.max }) do
    fields[#fields + 1] = field
  end
elseif not unchanged then
  body = meta.body
end

local tick = tick_of(now)
local expires = expiry(tick, presence)
-- How long after its reservation a job may keep a node busy: it leaves within judge, and the node then has the time of an
-- attempt. A score holds at most AGES - 1.
local busy = math.min(expiry(0, judge + attempt), AGES - 1)
local writes, gone, known = {}, {}, {}
local orphans, overdue, strays, cancels = {}, {}, {}, {}
local members = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
for i = 1, #members, 2 do
  local member, lease = members[i], unpack_score(members[i + 1])
  local job, adopted = named(member)
  local is_listed = lists == '1' and listed[job]
  local over = (tick - lease.since) * TICK >= attempt
  known[job] = true

  -- renew writes the lease anew; report adds it to one of the answers.
  local function renew(state, omitted)
    lease.state, lease.omitted, lease.expires = state, omitted, expires
    writes[#writes + 1] = pack(expires, lease.since, state + omitted)
    writes[#writes + 1] = member
  end
  -- keep renews a lease of a node that does not list its jobs for as long as the node may be working on this one.
  local function keep()
    local kept = math.min(expires, lease.since + busy)
    if kept <= lease.expires or kept <= tick then return end
    lease.expires = kept
    writes[#writes + 1] = pack(kept, lease.since, lease.state + lease.omitted)
    writes[#writes + 1] = member
  end
  local function report(list)
    list[#list + 1] = member
    list[#list + 1] = string.format('%.0f', pack(lease.expires, lease.since, lease.state + lease.omitted))
  end

  if lease.state == REVOKED then
    -- A job that may still be on its way is on no list. Then, here too, the first omission may be a heartbeat written
    -- before it arrived. A job that was on a list and is not any more is gone.
    if lists ~= '1' then keep() end
    if lists ~= '1' and lease.expires <= tick or lists == '1' and not is_listed and lease.omitted == ONCE and not repeated then
      gone[#gone + 1] = member
    else
      if is_listed then
        renew(REVOKED, ONCE)
      elseif lists == '1' and not (lease.omitted == NEVER and early(lease, tick, judge)) then
        writes[#writes + 1] = pack(lease.expires, lease.since, REVOKED + ONCE)
        writes[#writes + 1] = member
      end
      cancels[#cancels + 1] = job
    end
  elseif adopted then
    if is_listed then
      renew(lease.state, lease.omitted)
      report(strays)
    elseif lists == '1' or lease.expires <= tick then
      gone[#gone + 1] = member
    end
  elseif meta.offline == '1' then
    report(orphans)
  elseif is_listed then
    renew(lease.state == PARKED and RUNNING or lease.state, NEVER)
    if over then report(overdue) end
  elseif lease.state == PARKED then
    report(orphans)
  elseif lists ~= '1' then
    if over then keep() else renew(lease.state, lease.omitted) end
    if over then report(overdue) end
  elseif young(lease, tick, judge) then
    renew(lease.state, lease.omitted)
    if over then report(overdue) end
  elseif lease.omitted == NEVER or lease.omitted == ONCE and repeated then
    renew(lease.state, ONCE)
    if over then report(overdue) end
  else
    if lease.omitted ~= ORPHAN then
      lease.omitted = ORPHAN
      writes[#writes + 1] = pack(lease.expires, lease.since, lease.state + ORPHAN)
      writes[#writes + 1] = member
    end
    report(orphans)
  end
end
if lists == '1' then
  for _, stray in ipairs(adopt(tick, presence, listed, known, writes)) do strays[#strays + 1] = stray end
end
drop(KEYS[2], gone)
write(KEYS[2], writes)

meta.foreign, meta.seen = foreign_work(tick, KEYS[2], lists, n, counts, current), seen
for _, field in ipairs({ 'foreign', meta.foreign, 'room', meta.max - meta.foreign,
  'gate', gate(meta.epoch, meta.rev, meta.ready, meta.held) }) do
  fields[#fields + 1] = field
end
redis.call('HSET', KEYS[1], unpack(fields))
return {
  now, OK, { meta.epoch, meta.rev, meta.ver, meta.drained, meta.away or '0', body, now - seen },
  occupancy(now, tick, meta, KEYS[2], presence), orphans, overdue, strays, cancels,
}
