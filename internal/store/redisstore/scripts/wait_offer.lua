-- include lib_wait
-- Offers slots of a node to the waiters whose turn it is, in the classes that the node can serve.
-- KEYS  line, turns, timers, book, open, held
-- ARGV  not_after, slots, classes...
-- Returns {now, 1 if the call did not look at all waiters, else 0, when the offers expire, waiters...}.
local now = clock()
if is_late(now) then return { now } end
local asked, names = {}, {}
for i = 3, math.min(#ARGV, MAX_ASKED + 2) do
  asked[#asked + 1] = ARGV[i]
  names[#names + 1] = class_name(ARGV[i])
end
begin(now, unpack(names))
local dropped = 0

-- Removes waiters of a flow that cannot be served until its first one can. Returns it; nil: there is none.
local function first_of(class, tenant)
  while dropped < MAX_DROPPED do
    local flow = read(flow_name(class, tenant))
    if not flow or flow.waiting == 0 then return nil end
    local waiter = parse_waiter(range_of(line_key, class .. '|' .. tenant, 1)[1])
    if waiter.deadline > now and not is_dead(waiter.instance, now) then return waiter end
    take(waiter, now)
    leave(waiter)
    dropped = dropped + 1
  end
end

-- Returns the first waiter of the flow whose turn it is in a class; nil: there is none.
local function next_of(class)
  while dropped < MAX_DROPPED do
    local turn = range_of(turns_key, class, 1)[1]
    if not turn then return nil end
    local waiter = first_of(class, string.match(turn, '|([^|]*)$'))
    if waiter then return waiter end
  end
end

-- Returns the waiter by whose flow it is the turn of its tenant; nil: nobody waits, or too many waiters were dropped.
local function next_waiter()
  local best, best_tag, best_filed
  for i, class in ipairs(asked) do
    local record = read(names[i])
    if record and record.waiting > 0 then
      local waiter = next_of(class)
      if waiter then
        local flow = read(flow_name(class, waiter.tenant))
        local tag = flow.tag + record.offset
        if not best or tag < best_tag or tag == best_tag and flow.filed < best_filed then best, best_tag, best_filed = waiter, tag, flow.filed end
      end
    end
  end
  if dropped < MAX_DROPPED then return best end
end

-- Returns the waiter of the same tenant that has the earliest deadline in the asked classes, as fairqueue does; nil: too many waiters were dropped.
local function most_urgent(lead)
  local best = lead
  for _, class in ipairs(asked) do
    if class ~= best.class then
      local waiter = first_of(class, lead.tenant)
      if waiter and waiter.deadline < best.deadline then best = waiter end
    end
  end
  if dropped < MAX_DROPPED then return best end
end

-- Moves the virtual time of a class on to the lowest tag of its flows, and returns that.
local function move_on(class)
  local lowest = tonumber(string.match(range_of(turns_key, class, 1)[1], '^[^|]*|(%d+)|'))
  local record = edit(class_name(class))
  record.virtual = math.max(record.virtual, lowest)
  return lowest
end

-- Limits by how much a class is behind its pool.
local function limit_lag(class, charge)
  local record = edit(class_name(class))
  record.offset = math.max(record.offset, read('p').virtual - MAX_LAG * charge - record.virtual)
  return record
end

-- Offers a slot to a waiter, and charges its tenant in every asked class in which it waits. It is its turn because of its tag in the class of lead.
local function grant(lead, waiter)
  local pool, class, tenant = edit('p'), edit(class_name(waiter.class)), edit(tenant_name(waiter.tenant))
  local flow, offer = edit(flow_name(waiter.class, waiter.tenant)), edit(offer_name(waiter.member))
  local charge = charge_of(tenant)
  offer.expires, offer.filed, offer.charge, offer.contest = now + OFFER_MS, flow.filed, charge, 0
  local tag, leading = move_on(lead.class), edit(class_name(lead.class))
  pool.virtual = math.max(pool.virtual, leading.virtual + leading.offset)
  tenant.finish = math.max(tenant.finish, tag + charge + limit_lag(lead.class, charge).offset)
  if waiter.class ~= lead.class then
    move_on(waiter.class)
    limit_lag(waiter.class, charge)
  end
  if class.weights > flow.weight then
    offer.contest = math.floor(SHARE_SCALE / class.weights)
    class.contests = class.contests + offer.contest
    tenant.granted = tenant.granted + 1
  end
  settle(class, flow, tenant)
  local charged, seen = {}, {}
  for _, id in ipairs(asked) do
    local other = read(flow_name(id, waiter.tenant))
    if other and other.waiting > 0 and not seen[id] then
      set_tag(id, waiter.tenant, edit(flow_name(id, waiter.tenant)), other.tag + charge)
      charged[#charged + 1], seen[id] = id, true
    end
  end
  offer.classes = table.concat(charged, ',')
  take(waiter, now)
  set_timer('O', waiter.member, offer.expires)
end

local offered = {}
local more = 0
while #offered < math.min(tonumber(ARGV[2]), MAX_OFFERS) do
  local lead = next_waiter()
  local waiter = lead and most_urgent(lead)
  if not waiter then
    if dropped >= MAX_DROPPED then more = 1 end
    break
  end
  grant(lead, waiter)
  offered[#offered + 1] = waiter.member
end
save()
return { now, more, now + OFFER_MS, unpack(offered) }
