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

-- Removes waiters that cannot be served until the next one of the class can. Returns it with its flow; nil: there is none.
local function next_of(class)
  while dropped < MAX_DROPPED do
    local turn = range_of(turns_key, class, 1)[1]
    if not turn then return nil end
    local tenant = string.match(turn, '|([^|]*)$')
    local waiter = parse_waiter(range_of(line_key, class .. '|' .. tenant, 1)[1])
    if waiter.deadline > now and not is_dead(waiter.instance, now) then return waiter, read(flow_name(class, tenant)) end
    take(waiter, now)
    leave(waiter)
    dropped = dropped + 1
  end
end

-- Returns the waiter whose turn it is; nil: nobody waits, or too many waiters were dropped.
local function next_waiter()
  local best, best_tag, best_filed
  for i, class in ipairs(asked) do
    local record = read(names[i])
    if record and record.waiting > 0 then
      local waiter, flow = next_of(class)
      if waiter then
        local tag = flow.tag + record.offset
        if not best or tag < best_tag or tag == best_tag and flow.filed < best_filed then best, best_tag, best_filed = waiter, tag, flow.filed end
      end
    end
  end
  if dropped < MAX_DROPPED then return best end
end

-- Offers a slot to a waiter, and charges its tenant in every asked class in which it waits.
local function grant(waiter)
  local pool, class, tenant = edit('p'), edit(class_name(waiter.class)), edit(tenant_name(waiter.tenant))
  local flow, offer = edit(flow_name(waiter.class, waiter.tenant)), edit(offer_name(waiter.member))
  local charge = charge_of(tenant)
  offer.expires, offer.filed, offer.charge, offer.contest = now + OFFER_MS, flow.filed, charge, 0
  class.virtual = math.max(class.virtual, flow.tag)
  pool.virtual = math.max(pool.virtual, class.virtual + class.offset)
  class.offset = math.max(class.offset, pool.virtual - MAX_LAG * charge - class.virtual)
  tenant.finish = math.max(tenant.finish, flow.tag + charge + class.offset)
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
  local waiter = next_waiter()
  if not waiter then
    if dropped >= MAX_DROPPED then more = 1 end
    break
  end
  grant(waiter)
  offered[#offered + 1] = waiter.member
end
save()
return { now, more, now + OFFER_MS, unpack(offered) }
