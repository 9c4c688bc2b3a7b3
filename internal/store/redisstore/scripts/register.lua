-- Begins a new life of a node. What it lists it keeps; what it does not list is an orphan, unless it was reserved
-- so lately that it may still be on its way.
-- KEYS  meta, leases
-- ARGV  not_after, presence, judge, attempt, body, healthy, offline, max, load, lists, counts, current, returning,
--       connection, job|attempt …
-- Returns {now, known, {epoch, rev, ver, drained, away}, occupancy, kept, orphans, strays}.
local now = clock()
if late(now) then return { now } end
local presence, judge, attempt = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local lists, counts, current, returning = ARGV[10], ARGV[11], ARGV[12], ARGV[13]
local listed, n = listing(15)

local old = hash(KEYS[1], 'epoch', 'rev', 'ver', 'drained')
local t = redis.call('TIME')
local epoch = t[1] * 1000000 + t[2]
local rev, ver, drained = 1, 1, '0'
if old.epoch then
  epoch = math.max(tonumber(old.epoch) + 1, epoch)
  rev, ver, drained = tonumber(old.rev) + 1, tonumber(old.ver) + 1, old.drained
end
epoch = string.format('%.0f', epoch)

local tick = tick_of(now)
local expires = expiry(tick, presence)
local writes, gone, known, kept, orphans, strays = {}, {}, {}, {}, {}, {}
local members = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
for i = 1, #members, 2 do
  local member, lease = members[i], unpack_score(members[i + 1])
  local job, adopted = named(member)
  known[job] = true
  if lists == '1' and listed[job] then
    if lease.state == REVOKED or adopted then
      writes[#writes + 1] = pack(expires, lease.since, lease.state + (lease.state == REVOKED and ONCE or lease.omitted))
      if lease.state ~= REVOKED then
        strays[#strays + 1] = member
        strays[#strays + 1] = string.format('%.0f', writes[#writes])
      end
    else
      writes[#writes + 1] = pack(expires, lease.since, RUNNING + NEVER)
      kept[#kept + 1] = member
      kept[#kept + 1] = string.format('%.0f', writes[#writes])
    end
    writes[#writes + 1] = member
  elseif lease.state == REVOKED or adopted then
    -- The list may have been written before a job arrived. That is left to heartbeats, which can be told apart.
    if adopted or lists ~= '1' or lease.omitted == ONCE then gone[#gone + 1] = member end
  elseif not young(lease, tick, judge) then
    orphans[#orphans + 1] = member
    orphans[#orphans + 1] = members[i + 1]
  end
end
if lists == '1' then
  for _, stray in ipairs(adopt(tick, presence, listed, known, writes)) do strays[#strays + 1] = stray end
end
write(KEYS[2], writes)
drop(KEYS[2], gone)

local ready = grantable(ARGV[6], drained, '0')
local held = 0
if returning == '1' and lists ~= '1' then held = now + attempt end
local foreign = foreign_work(tick, KEYS[2], lists, n, counts, current)
redis.call('HSET', KEYS[1], 'epoch', epoch, 'rev', rev, 'ver', ver, 'drained', drained, 'body', ARGV[5],
  'healthy', ARGV[6], 'offline', ARGV[7], 'ready', ready, 'max', ARGV[8], 'load', ARGV[9], 'foreign', foreign,
  'seen', now, 'conn', ARGV[14], 'away', '0', 'held', held, 'seq', '0', 'gate', gate(epoch, rev, ready, held), 'room', ARGV[8] - foreign)
local meta = { max = ARGV[8], foreign = foreign, ready = ready, seen = now, held = held }
return {
  now, old.epoch and 1 or 0, { epoch, tostring(rev), tostring(ver), drained, '0' },
  occupancy(now, tick, meta, KEYS[2], presence), kept, orphans, strays,
}
