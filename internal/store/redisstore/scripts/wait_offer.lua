-- include lib_wait
-- Offers slots of a node to the waiters whose turn it is, in the classes that the node can serve.
-- KEYS  line, turns, timers, book, open, held
-- ARGV  not_after, slots, classes...
-- Returns {now, 1 if the call did not look at all waiters, else 0, when the offers expire, waiters...}.
local now = clock()
if is_late(now) then return { now } end
local asked, names, seen = {}, {}, {}
for i = 3, math.min(#ARGV, MAX_ASKED + 2) do
  if not seen[ARGV[i]] then
    asked[#asked + 1], names[#names + 1], seen[ARGV[i]] = ARGV[i], class_name(ARGV[i]), true
  end
end
begin(now, unpack(names))
local wanted, dropped = math.min(tonumber(ARGV[2]), MAX_OFFERS), 0

-- The turns of the classes, as far as they were read: the first flows of each, in order. If a class may have more, limit is the last one that was read:
-- flows that are not here come after it. For one slot the first of each class is enough.
local turns, turns_read = {}, wanted == 1 and 1 or TURNS_READ

-- Orders flows as their members are ordered in Redis. The operators of Lua would compare tenants by the locale of the server.
local function is_before(a, b)
  if a.tag ~= b.tag then return a.tag < b.tag end
  if a.filed ~= b.filed then return a.filed < b.filed end
  for i = 1, math.min(#a.tenant, #b.tenant) do
    local x, y = string.byte(a.tenant, i), string.byte(b.tenant, i)
    if x ~= y then return x < y end
  end
  return #a.tenant < #b.tenant
end

-- Returns the flow whose turn it is in a class; nil: there is none.
local function first_turn(class)
  local known = turns[class]
  if not known or #known == 0 and known.limit then
    known = {}
    for i, member in ipairs(range_of(turns_key, class, turns_read)) do
      local tag, filed, tenant = string.match(member, '|(%d+)|(%d+)|([^|]*)$')
      known[i] = { class = class, tag = tonumber(tag), filed = tonumber(filed), tenant = tenant }
    end
    if #known == turns_read then known.limit = known[#known] end
    turns[class] = known
  end
  return known[1]
end

-- Moves a flow that has changed to its place among the turns of its class.
local function move_turn(class, tenant, flow)
  local known = turns[class]
  if not known then return end
  for i, turn in ipairs(known) do
    if turn.tenant == tenant then
      table.remove(known, i)
      break
    end
  end
  local turn = { class = class, tag = flow.tag, filed = flow.filed, tenant = tenant }
  if flow.waiting == 0 or known.limit and is_before(known.limit, turn) then return end
  local place = 1
  while known[place] and is_before(known[place], turn) do place = place + 1 end
  table.insert(known, place, turn)
end

-- The flows of a tenant in the asked classes, in the order of these, and by class. They are read once.
local flows_by_tenant = {}
local function flows_of(tenant)
  if flows_by_tenant[tenant] then return flows_by_tenant[tenant] end
  local flow_names = { tenant_name(tenant) }
  for i, class in ipairs(asked) do flow_names[i + 1] = flow_name(class, tenant) end
  preload(flow_names)
  local flows = { by_class = {} }
  for i, class in ipairs(asked) do
    local record = read(flow_names[i + 1])
    if record and record.waiting > 0 then
      local flow = { class = class, tenant = tenant, name = flow_names[i + 1], record = record }
      flows[#flows + 1], flows.by_class[class] = flow, flow
    end
  end
  flows_by_tenant[tenant] = flows
  return flows
end

-- Returns the first waiter of a flow that has some.
local function first_of(flow)
  if not flow.first then flow.first = parse_waiter(range_of(line_key, flow.class .. '|' .. flow.tenant, 1)[1]) end
  return flow.first
end

-- Removes the first waiter of a flow from the line.
local function take_first(flow)
  take(flow.first, now)
  flow.first = nil
  move_turn(flow.class, flow.tenant, flow.record)
end

-- Reports whether the first waiter of a flow can be served. One that has expired, or whose instance is dead, is removed.
local function check_first(flow)
  local waiter = first_of(flow)
  if waiter.deadline > now and not is_dead(waiter.instance, now) then return true end
  take_first(flow)
  leave(waiter)
  dropped = dropped + 1
  return false
end

-- Returns the flow whose turn it is; nil: nobody waits, or too many waiters were dropped.
local function next_flow()
  while dropped < MAX_DROPPED do
    local best, best_tag
    for i, class in ipairs(asked) do
      local record = records[names[i]]
      local turn = record and record.waiting > 0 and first_turn(class)
      if turn then
        local tag = turn.tag + record.offset
        if not best or tag < best_tag or tag == best_tag and turn.filed < best.filed then best, best_tag = turn, tag end
      end
    end
    if not best then return nil end
    local flow = flows_of(best.tenant).by_class[best.class]
    while flow.record.waiting > 0 and dropped < MAX_DROPPED do
      if check_first(flow) then return flow end
    end
  end
end

-- Returns, of MAX_URGENT flows of the same tenant, the one whose first waiter has the earliest deadline, as fairqueue does; nil: too many waiters were
-- dropped.
local function most_urgent(lead)
  while dropped < MAX_DROPPED do
    local best, compared = lead, 1
    for _, flow in ipairs(flows_of(lead.tenant)) do
      if flow ~= lead and flow.record.waiting > 0 then
        if compared == MAX_URGENT then break end
        compared = compared + 1
        if first_of(flow).deadline < first_of(best).deadline then best = flow end
      end
    end
    if check_first(best) then return best end
  end
end

-- Moves the virtual time of a class on to the lowest tag of its flows. One that is too high raises that of the pool, so that the queue begins anew.
local function move_on(class)
  local record, pool = edit(class_name(class)), edit('p')
  record.virtual = math.max(record.virtual, first_turn(class).tag)
  if record.virtual > MAX_VIRTUAL then pool.virtual = math.max(pool.virtual, record.virtual) end
  return record
end

-- Limits by how much a class is behind its pool.
local function limit_lag(record, charge)
  record.offset = math.max(record.offset, read('p').virtual - MAX_LAG * charge - record.virtual)
end

-- Offers a slot to the first waiter of a flow, and charges its tenant in every asked class in which it waits. It is its turn because of the tag of lead.
local function grant(lead, flow)
  local waiter, pool, tenant = first_of(flow), edit('p'), edit(tenant_name(flow.tenant))
  local record, offer, charge = edit(flow.name), edit(offer_name(waiter.member)), charge_of(tenant)
  offer.expires, offer.filed, offer.charge, offer.contest = now + OFFER_MS, record.filed, charge, 0
  local leading = move_on(lead.class)
  pool.virtual = math.max(pool.virtual, leading.virtual + leading.offset)
  limit_lag(leading, charge)
  tenant.finish = math.max(tenant.finish, lead.record.tag + charge + leading.offset)
  local class = move_on(flow.class)
  limit_lag(class, charge)
  if class.weights > record.weight then
    offer.contest = math.floor(SHARE_SCALE / class.weights)
    class.contests = class.contests + offer.contest
    tenant.granted = tenant.granted + 1
  end
  settle(class, record, tenant)
  local charged = {}
  for _, other in ipairs(flows_of(flow.tenant)) do
    if other.record.waiting > 0 then
      set_tag(other.class, other.tenant, edit(other.name), other.record.tag + charge)
      move_turn(other.class, other.tenant, other.record)
      charged[#charged + 1] = other.class
    end
  end
  offer.charged = table.concat(charged, ',')
  take_first(flow)
  set_timer('O', waiter.member, offer.expires)
  return waiter.member
end

local offered = {}
local limit = math.min(wanted, math.floor(MAX_COMPARED / math.max(#asked, 1)))
local more = limit < wanted and 1 or 0
while #offered < limit do
  local lead = next_flow()
  local flow = lead and most_urgent(lead)
  if not flow then
    more = dropped >= MAX_DROPPED and 1 or 0
    break
  end
  offered[#offered + 1] = grant(lead, flow)
end
save()
return { now, more, now + OFFER_MS, unpack(offered) }
