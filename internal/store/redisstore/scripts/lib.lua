-- What the scripts share: it is put before each of them but those that say they stand alone.
--
-- A script returns a list that begins with this server's time. One that is on the way of every job answers in brief,
-- because a list costs it as much as two commands: ((now - EPOCH) * 16 + code) * 256 + count.
--
-- A lease is a member job|attempt|token of its node's sorted set. Its score holds, from the highest digits to the
-- lowest: when it stops counting, how long before that it was reserved, how often in a row the node's list left it
-- out, and its state. Times in it are ticks of 100 ms since 2024. So ordering by score is ordering by expiry, one
-- ZCOUNT counts what lives, and a lease needs no second key.

local TICK, EPOCH = 100, 1704067200000
local AGES, CODES = 65536, 16 -- one tick of expiry counts 1048576
local RESERVED, RUNNING, REVOKED, PARKED = 0, 1, 2, 3
local NEVER, ONCE, ORPHAN = 0, 4, 8 -- omissions
local ARRIVED = 8 -- of a revoked lease: it was never left out, and its node has confirmed the job

local OK, FULL, NOT_READY, NO_CAPACITY = 1, 2, 3, 4
local STALE_EPOCH, STALE_REVISION, TOO_LATE, UNKNOWN_NODE = 5, 6, 7, 8

local HEIR = 'heir' -- who reads the inbox of an instance that is gone

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Every script that writes is told first, in ARGV[1], after which moment of this server's clock nobody waits for it
-- any more, or 0. A script that comes too late writes nothing and returns just {now}.
local function late(now)
  local limit = tonumber(ARGV[1])
  return limit > 0 and now > limit
end

local function tick_of(ms) return math.floor((ms - EPOCH) / TICK) end

-- The tick at which something written now stops counting: a lease outlives the presence written with it.
local function expiry(tick, ttl) return tick + math.ceil(ttl / TICK) + 1 end

local function pack(expires, since, code)
  return (expires * AGES + math.min(expires - since, AGES - 1)) * CODES + code
end

local function unpack_score(score)
  score = tonumber(score)
  local code = score % CODES
  local rest = (score - code) / CODES
  local age = rest % AGES
  local expires = (rest - age) / AGES
  return { expires = expires, since = expires - age, state = code % 4, omitted = code - code % 4 }
end

-- The lowest score of a lease that counts.
local function living(tick) return (tick + 1) * AGES * CODES end

-- Whether a lease was reserved so lately that its job may still be on its way to the node.
local function early(lease, tick, judge) return (tick - lease.since) * TICK < judge end

local function young(lease, tick, judge) return lease.state == RESERVED and early(lease, tick, judge) end

-- Whether nothing may be granted on a node, and whether that is because it is held.
local function closed(now, ready, seen, held, presence)
  local is_held = tonumber(held or 0) > now
  return ready ~= '1' or now - tonumber(seen) >= presence or is_held, is_held
end

-- Whether a node may be given new work, as the field ready has it.
local function grantable(healthy, drained, away)
  return (healthy == '1' and drained ~= '1' and away ~= '1') and '1' or '0'
end

-- What a reservation asks of a node first: the epoch and revision on which it may be granted, nothing while it may not.
local function gate(epoch, rev, ready, held) return (ready == '1' and tonumber(held) == 0) and epoch .. '.' .. rev or '' end

-- How full a node is: max, reserved, running, foreign, closed, held.
local function occupancy(now, tick, meta, leases, presence)
  local reserved, running = 0, 0
  local members = redis.call('ZRANGE', leases, living(tick), '+inf', 'BYSCORE', 'WITHSCORES')
  for i = 2, #members, 2 do
    if unpack_score(members[i]).state == RESERVED then
      reserved = reserved + 1
    else
      running = running + 1
    end
  end
  local shut, held = closed(now, meta.ready, meta.seen, meta.held, presence)
  return { tonumber(meta.max), reserved, running, tonumber(meta.foreign), shut and 1 or 0, held and 1 or 0 }
end

-- What of the work a node reports is not ours. A node that lists its jobs counted and listed in the same breath;
-- for one that does not, the leases stand in for the list.
local function foreign_work(tick, leases, lists, listed, counts, current)
  if counts ~= '1' then return 0 end
  local ours = listed
  if lists ~= '1' then ours = redis.call('ZCOUNT', leases, living(tick), '+inf') end
  return math.max(0, tonumber(current) - ours)
end

-- The jobs a node lists, from ARGV[first] on, as a set of job|attempt; and how many there are.
local function listing(first)
  local set, n = {}, 0
  for i = first, #ARGV do
    set[ARGV[i]] = true
    n = n + 1
  end
  return set, n
end

-- A member's job|attempt, and whether nobody's token is on it: it was adopted from a node's list.
local function named(member)
  local job, token = string.match(member, '^([^|]*|[^|]*)|(.*)$')
  return job, token == ''
end

-- Leases of listed jobs that nobody reserved: their slots are taken, whoever is right about them. Adds them to the
-- writes and returns them, to be judged by the jobs' records.
local function adopt(tick, ttl, listed, known, writes)
  local strays = {}
  for job in pairs(listed) do
    if not known[job] then
      local score = pack(expiry(tick, ttl), tick, RUNNING)
      writes[#writes + 1] = score
      writes[#writes + 1] = job .. '|'
      strays[#strays + 1] = job .. '|'
      strays[#strays + 1] = string.format('%.0f', score)
    end
  end
  return strays
end

-- Writes scores and members in calls that stay within what Lua can unpack.
local function write(leases, writes)
  for i = 1, #writes, 2000 do
    redis.call('ZADD', leases, unpack(writes, i, math.min(i + 1999, #writes)))
  end
end

local function drop(leases, members)
  for i = 1, #members, 2000 do
    redis.call('ZREM', leases, unpack(members, i, math.min(i + 1999, #members)))
  end
end

-- Who has a session: the epoch, 0 when there is no such session, its incarnation and its owner. Its state begins with them.
local function claim(key)
  local head = redis.call('GETRANGE', key, 0, 255)
  local epoch, incarnation, owner = string.match(head, '^(%d+) (%S+) ([^\n]*)\n')
  return tonumber(epoch or 0), incarnation or '', owner or ''
end

-- Where a session's outbox stands, kept beside the messages that wait for others before them: next, the index of the next
-- message; bytes, how much has entered the stream; from, how much had before its first message; acked, the last message that
-- its client has. Beside it are returned the values of up to two further fields.
local function outbox(waiting, ...)
  local v = redis.call('HMGET', waiting, 'next', 'bytes', 'from', 'acked', ...)
  return { next = tonumber(v[1] or 0), bytes = tonumber(v[2] or 0), from = tonumber(v[3] or 0), acked = tonumber(v[4] or 0) }, v[5], v[6]
end

local function write_outbox(waiting, box)
  redis.call('HSET', waiting, 'next', box.next, 'bytes', box.bytes, 'from', box.from, 'acked', box.acked)
end

-- Adds the next message to a session's stream. An entry's name is its position, one more than its index; it holds where it
-- begins in all that has entered.
local function enter(out, box, body)
  redis.call('XADD', out, (box.next + 1) .. '-0', 'b', body, 'o', box.bytes)
  box.next, box.bytes = box.next + 1, box.bytes + #body
end

-- Moves messages that waited for others before them into a session's stream, until one is missing.
local function advance(out, waiting, box)
  while true do
    local index = tostring(box.next)
    local body = redis.call('HGET', waiting, index)
    if not body then return end
    enter(out, box, body)
    redis.call('HDEL', waiting, index)
  end
end

-- Drops the oldest messages of a stream while there are too many or they are too large. Those after a position have entered
-- just now, and stay.
local MAX_MESSAGES = 1024
local function bound(out, box, before, max_bytes)
  if box.next - MAX_MESSAGES > box.acked then redis.call('XTRIM', out, 'MINID', '~', box.next - MAX_MESSAGES) end
  while max_bytes > 0 and box.bytes - box.from > max_bytes do
    local first = redis.call('XRANGE', out, '-', '+', 'COUNT', 1)[1]
    if not first then return end
    box.from = tonumber(first[2][4])
    if box.bytes - box.from <= max_bytes or tonumber(string.match(first[1], '^%d+')) > before then return end
    redis.call('XDEL', out, first[1])
  end
end

local function hash(key, ...)
  local names, meta = { ... }, {}
  local values = redis.call('HMGET', key, ...)
  for i, name in ipairs(names) do meta[name] = values[i] end
  return meta
end
