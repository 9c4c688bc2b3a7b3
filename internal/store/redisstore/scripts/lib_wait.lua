-- The queue of a pool, which package fairqueue describes and does in the same way. Its keys, the same in every script that includes this:
-- KEYS  line, turns, timers, book, open, held
--
--   line    the waiters that have no offer: class|tenant|deadline|since|instance|id, ordered by the text
--   turns   the flows that have such waiters: class|tag|filed|tenant, ordered by the text
--   timers  what is to be done, by the time at which it is due: a character for the kind, and a name
--   book    the requirements of classes r|class, and records of numbers: the pool p, classes c|class, flows f|class|tenant, tenants t|tenant,
--           instances i|instance, and offers o|waiter, which end with the classes in which the tenant was charged
--   open    the classes in which somebody waits, with their requirements
--   held    the waiters of the line by instance: instance|waiter
--
-- A script reads the records that it needs, and writes those that it has changed once, at its end. Changes of the sorted sets are collected too, and
-- written at the end, or before the set is read. The record of the pool has the sizes of the other keys: if one of the keys was lost, all are deleted,
-- and the instances add their waiters again. The same is done with a queue whose virtual time is too high.

local line_key, turns_key, timers_key, book_key, open_key, held_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]

-- Records are doubles, one after another, and the classes of an offer after its doubles: most of the time of a script would go into texts of numbers.
-- By the first character of a name: how many doubles a record has, and how it is decoded and encoded.
local codecs = {
  p = {
    doubles = 10,
    decode = function(text)
      local virtual, waiting, weights, open, classes, flows, timers, last_call, judge_after, freed = struct.unpack('<dddddddddd', text)
      return { virtual = virtual, waiting = waiting, weights = weights, open = open, classes = classes, flows = flows, timers = timers,
        last_call = last_call, judge_after = judge_after, freed = freed }
    end,
    encode = function(r)
      return struct.pack('<dddddddddd', r.virtual, r.waiting, r.weights, r.open, r.classes, r.flows, r.timers, r.last_call, r.judge_after, r.freed)
    end,
  },
  c = {
    doubles = 8,
    decode = function(text)
      local virtual, offset, waiting, weights, contests, last, us, grants = struct.unpack('<dddddddd', text)
      return { virtual = virtual, offset = offset, waiting = waiting, weights = weights, contests = contests, last = last, us = us, grants = grants }
    end,
    encode = function(r) return struct.pack('<dddddddd', r.virtual, r.offset, r.waiting, r.weights, r.contests, r.last, r.us, r.grants) end,
  },
  f = {
    doubles = 8,
    decode = function(text)
      local tag, filed, waiting, weight, contested, last, us, grants = struct.unpack('<dddddddd', text)
      return { tag = tag, filed = filed, waiting = waiting, weight = weight, contested = contested, last = last, us = us, grants = grants }
    end,
    encode = function(r) return struct.pack('<dddddddd', r.tag, r.filed, r.waiting, r.weight, r.contested, r.last, r.us, r.grants) end,
  },
  t = {
    doubles = 6,
    decode = function(text)
      local weight, waiting, flows, finish, granted, entitled = struct.unpack('<dddddd', text)
      return { weight = weight, waiting = waiting, flows = flows, finish = finish, granted = granted, entitled = entitled }
    end,
    encode = function(r) return struct.pack('<dddddd', r.weight, r.waiting, r.flows, r.finish, r.granted, r.entitled) end,
  },
  i = {
    doubles = 2,
    decode = function(text)
      local beat, waiters = struct.unpack('<dd', text)
      return { beat = beat, waiters = waiters }
    end,
    encode = function(r) return struct.pack('<dd', r.beat, r.waiters) end,
  },
  o = {
    doubles = 4,
    decode = function(text)
      local expires, filed, charge, contest = struct.unpack('<dddd', text)
      return { expires = expires, filed = filed, charge = charge, contest = contest, charged = string.sub(text, 33) }
    end,
    encode = function(r) return struct.pack('<dddd', r.expires, r.filed, r.charge, r.contest) .. r.charged end,
  },
}

local records, changed = {}, {}

local function kind_of(name) return string.sub(name, 1, 1) end

-- Returns a record; false if there is none, or another version has written it.
local function decode_record(name, text)
  local kind = kind_of(name)
  local codec = codecs[kind]
  local rest = text and #text - 8 * codec.doubles
  return (rest == 0 or rest and rest > 0 and kind == 'o') and codec.decode(text)
end

-- Runs a command for many values, as often as needed.
local function call_for(command, key, values)
  for i = 1, #values, MAX_UNPACK do redis.call(command, key, unpack(values, i, math.min(i + MAX_UNPACK - 1, #values))) end
end

-- Reads records that will be needed, if they are not known, with one command.
local function preload(names)
  local unknown = {}
  for _, name in ipairs(names) do
    if records[name] == nil then unknown[#unknown + 1] = name end
  end
  for i = 1, #unknown, MAX_UNPACK do
    local last = math.min(i + MAX_UNPACK - 1, #unknown)
    local values = redis.call('HMGET', book_key, unpack(unknown, i, last))
    for j = i, last do records[unknown[j]] = decode_record(unknown[j], values[j - i + 1]) end
  end
end

-- Returns a record; false if there is none.
local function read(name)
  if records[name] == nil then records[name] = decode_record(name, redis.call('HGET', book_key, name)) end
  return records[name]
end

-- Returns a record that the caller changes, with zeros if there is none.
local function edit(name)
  local record = read(name)
  if not record then
    local codec = codecs[kind_of(name)]
    record = codec.decode(string.rep('\0', 8 * codec.doubles))
    records[name] = record
  end
  changed[name] = true
  return record
end

local function forget(name)
  records[name] = false
  changed[name] = true
end

-- The changes of sorted sets that are not written yet. Of members of line, held and timers: their score, false if they are removed. Of turns: for the
-- record of a flow, its class, its tenant and the member that Redis has, if any.
local set_changes = { [line_key] = {}, [held_key] = {}, [timers_key] = {} }
local turn_changes = {}

local function turn_member(class, tenant, flow)
  return string.format('%s|%016.0f|%013.0f|%s', class, flow.tag, flow.filed, tenant)
end

-- Precedes every change of what the turn of a flow consists of: its tag, when it was filed, and whether it has waiters.
local function change_turn(class, tenant, flow)
  if turn_changes[flow] then return end
  turn_changes[flow] = { class = class, tenant = tenant, stored = flow.waiting > 0 and turn_member(class, tenant, flow) }
end

-- Adds the members that changes add and remove to lists.
local function list_changes(key, added, removed)
  if key ~= turns_key then
    for member, score in pairs(set_changes[key]) do
      if score then
        added[#added + 1], added[#added + 2] = score, member
      else
        removed[#removed + 1] = member
      end
    end
    set_changes[key] = {}
    return
  end
  for flow, change in pairs(turn_changes) do
    local member = flow.waiting > 0 and turn_member(change.class, change.tenant, flow)
    if member ~= change.stored then
      if change.stored then removed[#removed + 1] = change.stored end
      if member then added[#added + 1], added[#added + 2] = 0, member end
    end
  end
  turn_changes = {}
end

-- Writes the changes of a sorted set, and returns its key. Every read of a set that may have changed uses it.
local function written(key)
  if not next(key == turns_key and turn_changes or set_changes[key]) then return key end
  local added, removed = {}, {}
  list_changes(key, added, removed)
  call_for('ZREM', key, removed)
  call_for('ZADD', key, added)
  return key
end

-- Writes what has changed. A queue that has forgotten everything is deleted.
local function save()
  for _, key in ipairs({ line_key, turns_key, held_key }) do written(key) end
  local pool = records.p
  pool.timers = redis.call('ZCARD', written(timers_key))
  if pool.classes == 0 and pool.timers == 0 then
    redis.call('DEL', book_key)
    return
  end
  local values, removed = {}, {}
  for name in pairs(changed) do
    if records[name] then
      values[#values + 1], values[#values + 2] = name, codecs[kind_of(name)].encode(records[name])
    else
      removed[#removed + 1] = name
    end
  end
  call_for('HDEL', book_key, removed)
  call_for('HSET', book_key, values)
end

-- Extends the life of the keys, so that nothing is left when all instances are gone.
local function extend_life()
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, QUEUE_TTL_MS) end
end

local function class_name(class) return 'c|' .. class end
local function flow_name(class, tenant) return 'f|' .. class .. '|' .. tenant end
local function tenant_name(tenant) return 't|' .. tenant end
local function instance_name(instance) return 'i|' .. instance end
local function offer_name(member) return 'o|' .. member end

local function set_timer(kind, name, at) set_changes[timers_key][kind .. name] = string.format('%.0f', at) end
local function remove_timer(kind, name) set_changes[timers_key][kind .. name] = false end

local function parse_waiter(member)
  local class, tenant, deadline, since, instance = string.match(member, '^([^|]*)|([^|]*)|(%d+)|(%d+)|([^|]*)|')
  return { member = member, class = class, tenant = tenant, deadline = tonumber(deadline), since = tonumber(since), instance = instance }
end

-- Returns up to limit members of a set whose texts begin with a prefix and a bar. A brace follows the bar in the order of texts.
local function range_of(key, prefix, limit)
  return redis.call('ZRANGE', written(key), '[' .. prefix .. '|', '(' .. prefix .. '}', 'BYLEX', 'LIMIT', 0, limit)
end

-- Changes the tag of a flow, which may have waiters.
local function set_tag(class, tenant, flow, tag)
  change_turn(class, tenant, flow)
  flow.tag = tag
end

-- Puts a waiter among those of the line and of its instance, or removes it there.
local function change_line(waiter, score)
  set_changes[line_key][waiter.member] = score
  set_changes[held_key][waiter.instance .. '|' .. waiter.member] = score
end

-- Adds to a tenant what it was entitled to in a class since that was last done.
local function settle(class, flow, tenant)
  tenant.entitled = tenant.entitled + flow.weight * (class.contests - flow.contested)
  flow.contested = class.contests
end

-- Puts a waiter into the line. A flow that had none is filed at a time, with the tag that it has.
local function put(waiter, filed)
  local pool, class, tenant = edit('p'), edit(class_name(waiter.class)), edit(tenant_name(waiter.tenant))
  local flow = edit(flow_name(waiter.class, waiter.tenant))
  change_turn(waiter.class, waiter.tenant, flow)
  if flow.waiting == 0 then
    flow.filed, flow.weight, flow.contested = filed, tenant.weight, class.contests
    class.weights = class.weights + flow.weight
    tenant.flows = tenant.flows + 1
    pool.flows = pool.flows + 1
    remove_timer('F', waiter.class .. '|' .. waiter.tenant)
  end
  flow.waiting = flow.waiting + 1
  change_line(waiter, 0)
  if class.waiting == 0 then
    pool.open = pool.open + 1
    redis.call('HSET', open_key, waiter.class, redis.call('HGET', book_key, 'r|' .. waiter.class) or '')
    remove_timer('K', waiter.class)
  end
  class.waiting = class.waiting + 1
  if tenant.waiting == 0 then
    pool.weights = pool.weights + tenant.weight
    remove_timer('T', waiter.tenant)
  end
  tenant.waiting = tenant.waiting + 1
  pool.waiting = pool.waiting + 1
end

-- Removes a waiter from the line.
local function take(waiter, now)
  local pool, class, tenant = edit('p'), edit(class_name(waiter.class)), edit(tenant_name(waiter.tenant))
  local flow = edit(flow_name(waiter.class, waiter.tenant))
  change_turn(waiter.class, waiter.tenant, flow)
  change_line(waiter, false)
  flow.waiting = flow.waiting - 1
  if flow.waiting == 0 then
    settle(class, flow, tenant)
    class.weights = class.weights - flow.weight
    tenant.flows = tenant.flows - 1
    pool.flows = pool.flows - 1
    set_timer('F', waiter.class .. '|' .. waiter.tenant, now + FORGET_MS)
  end
  class.waiting = class.waiting - 1
  if class.waiting == 0 then
    pool.open = pool.open - 1
    redis.call('HDEL', open_key, waiter.class)
    set_timer('K', waiter.class, now + FORGET_CLASS_MS)
  end
  tenant.waiting = tenant.waiting - 1
  if tenant.waiting == 0 then
    pool.weights = pool.weights - tenant.weight
    set_timer('T', waiter.tenant, now + FORGET_MS)
  end
  pool.waiting = pool.waiting - 1
end

-- Removes what is counted of a waiter that is neither in the line nor has an offer any more.
local function leave(waiter)
  local name = instance_name(waiter.instance)
  if not read(name) then return end
  local instance = edit(name)
  instance.waiters = instance.waiters - 1
  if instance.waiters <= 0 then
    forget(name)
    remove_timer('I', waiter.instance)
  end
end

-- Reports whether the waiters of an instance are to be removed: it has been silent, and not because Redis did not answer.
local function is_dead(instance, now)
  local record = read(instance_name(instance))
  return not record or now >= read('p').judge_after and now - record.beat >= SILENCE_MS
end

-- Records that an instance is alive.
local function beat_of(instance, now)
  edit(instance_name(instance)).beat = now
  redis.call('ZADD', written(timers_key), 'NX', string.format('%.0f', now + SILENCE_MS), 'I' .. instance)
end

-- Takes back what an offer has charged.
local function refund(waiter, offer)
  local classes, names = {}, {}
  for class in string.gmatch(offer.charged, '[^,]+') do
    classes[#classes + 1], names[#names + 1] = class, flow_name(class, waiter.tenant)
  end
  preload(names)
  for i, name in ipairs(names) do
    if read(name) then
      local flow = edit(name)
      set_tag(classes[i], waiter.tenant, flow, math.max(flow.tag - offer.charge, 0))
    end
  end
  if read(tenant_name(waiter.tenant)) then
    local tenant = edit(tenant_name(waiter.tenant))
    tenant.finish = math.max(tenant.finish - offer.charge, 0)
    if offer.contest > 0 then tenant.granted = tenant.granted - 1 end
  end
  if read(class_name(waiter.class)) then
    local class = edit(class_name(waiter.class))
    class.contests = class.contests - offer.contest
  end
end

local function end_offer(waiter)
  forget(offer_name(waiter.member))
  remove_timer('O', waiter.member)
end

-- Takes an offer back. Returns whether the waiter is in the line again.
local function take_back(waiter, offer, now)
  end_offer(waiter)
  refund(waiter, offer)
  local known = read(class_name(waiter.class)) and read(flow_name(waiter.class, waiter.tenant)) and read(tenant_name(waiter.tenant))
  if not known or waiter.deadline <= now or is_dead(waiter.instance, now) then
    leave(waiter)
    return false
  end
  put(waiter, offer.filed)
  return true
end

-- Removes waiters of an instance if it is dead, and sets its timer again otherwise.
local function judge(instance, now)
  local record = read(instance_name(instance))
  if not record then return end
  if not is_dead(instance, now) then
    set_timer('I', instance, math.max(record.beat + SILENCE_MS, read('p').judge_after))
    return
  end
  local members = range_of(held_key, instance, MAX_DROPPED + 1)
  for i = 1, math.min(#members, MAX_DROPPED) do
    local waiter = parse_waiter(string.sub(members[i], #instance + 2))
    take(waiter, now)
    leave(waiter)
  end
  if #members > MAX_DROPPED then set_timer('I', instance, now) end
end

-- Does what is due, as much of it as one call does: offers are taken back, waiters of dead instances removed, and what is not needed is
-- forgotten.
local function handle_timers(now)
  local due = redis.call('ZRANGE', written(timers_key), '-inf', string.format('%.0f', now), 'BYSCORE', 'LIMIT', 0, MAX_TIMERS)
  for _, text in ipairs(due) do
    if set_changes[timers_key][text] ~= false then -- another one may have removed it
      local kind, name = kind_of(text), string.sub(text, 2)
      remove_timer(kind, name)
      if kind == 'O' then
        local offer = read(offer_name(name))
        if offer then
          take_back(parse_waiter(name), offer, now)
          edit('p').freed = 1
        end
      elseif kind == 'F' then
        forget('f|' .. name)
      elseif kind == 'T' then
        forget(tenant_name(name))
      elseif kind == 'K' then
        forget(class_name(name))
        redis.call('HDEL', book_key, 'r|' .. name)
        local pool = edit('p')
        pool.classes = pool.classes - 1
        if pool.classes == 0 then pool.virtual = 0 end
      else
        judge(name, now)
      end
    end
  end
end

-- Opens the queue for a call, and deletes one of which keys were lost, that another version has written, or whose virtual time is too high. While there
-- are waiters their instances call all the time: if nobody has, Redis did not answer, and no instance is taken for dead before it could call again. The
-- names are those of records that the script will need.
local function open_queue(now, ...)
  preload({ 'p', ... })
  local pool = records.p
  if not pool or pool.waiting ~= redis.call('ZCARD', line_key) or pool.waiting ~= redis.call('ZCARD', held_key)
    or pool.flows ~= redis.call('ZCARD', turns_key) or pool.open ~= redis.call('HLEN', open_key)
    or pool.timers ~= redis.call('ZCARD', timers_key) or pool.virtual > MAX_VIRTUAL then
    redis.call('DEL', line_key, turns_key, timers_key, book_key, open_key, held_key)
    for name in pairs(records) do records[name] = false end
  end
  pool = edit('p')
  if pool.last_call > 0 and now - pool.last_call > STALL_MS then pool.judge_after = now + SILENCE_MS end
  pool.last_call = now
end

local function begin(now, ...)
  open_queue(now, ...)
  handle_timers(now)
end

-- Measures the interval since the last grant, in nanoseconds: with many grants in a millisecond, most steps are less than a microsecond.
local function count_grant_of(meter, now, limit)
  local mean = math.floor(meter.us * 1000 + 0.5)
  local difference = math.max(now - meter.last, 0) * 1000000 - mean
  meter.grants = math.min(meter.grants + 1, limit)
  local step = math.floor(math.abs(difference) / meter.grants)
  meter.us = (mean + (difference < 0 and -step or step)) / 1000
  meter.last = now
end

local function count_grant(waiter, now)
  if read(class_name(waiter.class)) then count_grant_of(edit(class_name(waiter.class)), now, CLASS_GRANTS) end
  local name = flow_name(waiter.class, waiter.tenant)
  if read(name) then count_grant_of(edit(name), now, FLOW_GRANTS) end
end

local function charge_of(tenant) return math.floor(UNIT / tenant.weight) end
