-- Functions that the scripts share. It is put before every script that is not marked as standalone. Names in capitals, except KEYS
-- and ARGV, are constants of scripts.go: they are replaced by their values when a script is loaded.
--
-- Every script returns a list that begins with the server's time in ms. A script that runs for every job returns a compact reply
-- instead, because a list costs as much as two commands: ((now - EPOCH) * COMPACT_CODES + code) * COMPACT_COUNTS + count.
--
-- A lease is a member job|attempt|token of its node's sorted set. Its score contains, from the highest digits to the lowest: the
-- expiry, the time between reservation and expiry, how often in a row the node's list has omitted the job, and the state. Times are in
-- ticks since EPOCH. So the order of the scores is the order of the expiries, one ZCOUNT counts the live leases, and a lease needs no
-- second key:
--
--   score = (expires * AGES + expires - reserved) * CODES + omitted + state

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Returns a stored number that is not negative and has no fraction; 0 for any other text, and for nil.
local function read_number(text)
  if not text or #text > MAX_DIGITS or not string.match(text, '^%d+$') then return 0 end
  return tonumber(text)
end

-- Reports whether the script arrived after its deadline. ARGV[1] of every script that writes is not_after: the time of this server
-- after which no caller waits for the result, or 0. A late script writes nothing and returns only {now}.
local function is_late(now)
  local not_after = tonumber(ARGV[1])
  return not_after > 0 and now > not_after
end

local function tick_of(ms) return math.floor((ms - EPOCH) / TICK) end

-- Returns the tick at which something that is written now expires. Rounding up makes a lease outlive the presence that is written
-- with it.
local function expiry(tick, ttl) return tick + math.ceil(ttl / TICK) + 1 end

local function pack_score(expires, reserved, code)
  return (expires * AGES + math.min(expires - reserved, AGES - 1)) * CODES + code
end

local function unpack_score(score)
  score = tonumber(score)
  if not (score >= 0 and score < MAX_SCORE) then score = 0 end -- no script has written it: it is that of a lease that has expired
  local code = score % CODES
  local rest = (score - code) / CODES
  local age = rest % AGES
  local expires = (rest - age) / AGES
  return { expires = expires, reserved = expires - age, state = code % STATES, omitted = code - code % STATES }
end

-- Returns the lowest score of a live lease.
local function min_live_score(tick) return (tick + 1) * AGES * CODES end

-- Reports whether a lease was certainly reserved at least so many milliseconds ago. Both times are known to the tick, so that it may be older
-- than this by one.
local function is_older(lease, tick, ms) return (tick - lease.reserved - 1) * TICK >= ms end

-- Reports whether a lease was reserved so recently that its job may still be on its way to the node.
local function in_transit(lease, tick, reserved_ttl) return not is_older(lease, tick, reserved_ttl) end

local function is_young_reservation(lease, tick, reserved_ttl) return lease.state == RESERVED and in_transit(lease, tick, reserved_ttl) end

-- Reports whether a node gets no new jobs, and whether that is because of its hold.
local function is_closed(now, ready, seen, held, presence)
  local is_held = tonumber(held or 0) > now
  return ready ~= '1' or now - tonumber(seen) >= presence or is_held, is_held
end

-- Returns the field ready: '1' if health, drain and connection allow new jobs. The field disconnected is 0, 1 while the connection is lost, or
-- since when nothing has come over it.
local function ready_flag(healthy, drained, disconnected)
  return (healthy == '1' and drained ~= '1' and read_number(disconnected) == 0) and '1' or '0'
end

-- Returns the field grant, with which a reservation compares first: the epoch and revision on which jobs may be granted, '' while
-- none may.
local function grant_key(epoch, rev, ready, held) return (ready == '1' and tonumber(held) == 0) and epoch .. '.' .. rev or '' end

-- Returns how many slots of a node may be granted: the maximum that it declares, or the limit with which its admission begins.
local function admitted_slots(max, admission)
  local limit = string.match(admission or '', '^%d+')
  return limit and math.min(tonumber(max), tonumber(limit)) or tonumber(max)
end

-- Returns the field capacity, with which a reservation compares the number of leases.
local function capacity_of(max, admission, foreign) return admitted_slots(max, admission) - foreign end

-- Returns how full a node is: max, reserved, running, foreign, closed, held, withheld.
local function occupancy(now, tick, meta, leases, presence)
  local reserved, running = 0, 0
  local members = redis.call('ZRANGE', leases, min_live_score(tick), '+inf', 'BYSCORE', 'WITHSCORES')
  for i = 2, #members, 2 do
    if unpack_score(members[i]).state == RESERVED then
      reserved = reserved + 1
    else
      running = running + 1
    end
  end
  local closed, held = is_closed(now, meta.ready, meta.seen, meta.held, presence)
  local withheld = tonumber(meta.max) - admitted_slots(meta.max, meta.admission)
  return { tonumber(meta.max), reserved, running, tonumber(meta.foreign), closed and 1 or 0, held and 1 or 0, withheld }
end

-- Returns how much of the work that a node reports is not ours. A node that lists its jobs counts and lists them in the same message;
-- for one that does not, the live leases take the place of the list.
local function foreign_work(tick, leases, lists, listed_count, counts, current)
  if counts ~= '1' then return 0 end
  local ours = listed_count
  if lists ~= '1' then ours = redis.call('ZCOUNT', leases, min_live_score(tick), '+inf') end
  return math.max(0, tonumber(current) - ours)
end

-- Returns the jobs that a node lists, from ARGV[first] on, as a set of job|attempt, and their number.
local function listed_jobs(first)
  local set, count = {}, 0
  for i = first, #ARGV do
    set[ARGV[i]] = true
    count = count + 1
  end
  return set, count
end

-- Returns the job|attempt of a member, and whether it has no token: then it was adopted from a node's list.
local function parse_member(member)
  local job, token = string.match(member, '^([^|]*|[^|]*)|(.*)$')
  return job or member, token == ''
end

-- Creates leases for listed jobs that have none: their slots are taken in any case. Adds them to the writes and returns them, for the
-- caller to compare with the jobs' records.
local function adopt_strays(tick, ttl, listed, known, writes)
  local strays = {}
  for job in pairs(listed) do
    if not known[job] then
      local score = pack_score(expiry(tick, ttl), tick, RUNNING)
      writes[#writes + 1] = score
      writes[#writes + 1] = job .. '|'
      strays[#strays + 1] = job .. '|'
      strays[#strays + 1] = string.format('%.0f', score)
    end
  end
  return strays
end

-- Writes scores and members, in calls of at most MAX_UNPACK arguments.
local function write_leases(leases, writes)
  for i = 1, #writes, MAX_UNPACK do
    redis.call('ZADD', leases, unpack(writes, i, math.min(i + MAX_UNPACK - 1, #writes)))
  end
end

local function remove_leases(leases, members)
  for i = 1, #members, MAX_UNPACK do
    redis.call('ZREM', leases, unpack(members, i, math.min(i + MAX_UNPACK - 1, #members)))
  end
end

-- Returns the epoch (0 when there is no such session), the incarnation and the owner of a session. Its state begins with them.
local function session_owner(key)
  local head = redis.call('GETRANGE', key, 0, 255)
  local epoch, incarnation, owner = string.match(head, '^(%d+) (%S+) ([^\n]*)\n')
  return tonumber(epoch or 0), incarnation or '', owner or ''
end

-- Returns the counters of a session's outbox, which are kept beside the messages that wait for a predecessor: next, the index of the
-- next message; bytes, the size of all messages that have entered the stream; from, that size before the first message that the stream
-- still has; acked, the last position that the client has acknowledged. The values of up to two further fields follow.
local function read_outbox(waiting, ...)
  local v = redis.call('HMGET', waiting, 'next', 'bytes', 'from', 'acked', ...)
  return { next = read_number(v[1]), bytes = read_number(v[2]), from = read_number(v[3]), acked = read_number(v[4]) }, v[5], v[6]
end

local function write_outbox(waiting, outbox)
  redis.call('HSET', waiting, 'next', outbox.next, 'bytes', outbox.bytes, 'from', outbox.from, 'acked', outbox.acked)
end

-- Appends the next message to a session's stream. The id of an entry is its position, one more than its index; the field 'o' is the
-- size of all messages before it.
local function append_message(out, outbox, body)
  redis.call('XADD', out, (outbox.next + 1) .. '-0', 'b', body, 'o', outbox.bytes)
  outbox.next, outbox.bytes = outbox.next + 1, outbox.bytes + #body
end

-- Moves waiting messages into a session's stream until one is missing.
local function append_waiting(out, waiting, outbox)
  while true do
    local index = tostring(outbox.next)
    local body = redis.call('HGET', waiting, index)
    if not body then return end
    append_message(out, outbox, body)
    redis.call('HDEL', waiting, index)
  end
end

-- Drops the oldest messages of a stream while there are too many or they are too large. Those after the position before have just
-- entered the stream, and stay.
local function trim_outbox(out, outbox, before, max_bytes)
  if outbox.next - MAX_OUTBOX > outbox.acked then redis.call('XTRIM', out, 'MINID', '~', outbox.next - MAX_OUTBOX) end
  while max_bytes > 0 and outbox.bytes - outbox.from > max_bytes do
    local first = redis.call('XRANGE', out, '-', '+', 'COUNT', 1)[1]
    if not first then return end
    outbox.from = tonumber(first[2][4])
    if outbox.bytes - outbox.from <= max_bytes or tonumber(string.match(first[1], '^%d+')) > before then return end
    redis.call('XDEL', out, first[1])
  end
end

-- Returns the values of fields of a hash as a table.
local function by_name(values, ...)
  local fields = {}
  for i, name in ipairs({ ... }) do fields[name] = values[i] end
  return fields
end

local function read_fields(key, ...) return by_name(redis.call('HMGET', key, ...), ...) end

-- Returns fields of a hash that the caller is going to write. A key of another type is removed: it has nothing of the hash any more.
local function read_own_fields(key, ...)
  local values = redis.pcall('HMGET', key, ...)
  if not values.err then return by_name(values, ...) end
  redis.call('DEL', key)
  return {}
end

-- The fields of a node that are numbers, and what each looks like.
local node_numbers = {
  epoch = '^%d+$', rev = '^%d+$', ver = '^%d+$', seen = '^%d+$', seq = '^%d+$', held = '^%d+$', max = '^%-?%d+$',
}

-- Returns fields of a node, as read_own_fields. It has none if one of them is not as a script writes it: such a node is not registered, and
-- its next registration writes all fields.
local function read_node(key, ...)
  local fields = read_own_fields(key, ...)
  for name, value in pairs(fields) do
    local pattern = node_numbers[name]
    if pattern and (not value or #value > MAX_DIGITS or not string.match(value, pattern)) then return {} end
  end
  return fields
end

-- Returns the members of a node's leases with their scores. A key of another type is removed.
local function read_leases(key)
  local members = redis.pcall('ZRANGE', key, 0, -1, 'WITHSCORES')
  if not members.err then return members end
  redis.call('DEL', key)
  return {}
end

-- Reports whether a hash was written with a higher fence than this one. Fences are shorter than the digits of a Lua number.
local function is_fenced(key, fence) return read_number(redis.call('HGET', key, 'fence')) > tonumber(fence) end

-- Makes a key live for so many milliseconds at least, and up to twice as long, so that most calls need not write it.
local function extend_ttl(key, ttl)
  if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, 2 * ttl) end
end
