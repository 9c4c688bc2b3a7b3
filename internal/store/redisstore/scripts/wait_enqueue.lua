-- include lib_wait
-- Adds a waiter to the queue of a pool, unless it is there.
-- KEYS  line, turns, timers, book, open, held
-- ARGV  not_after, waiter, requirements, weight, maximum of waiters, 1 if it was accepted before, else 0
-- Returns {now, verdict, 1 if nobody else waits in the class, else 0, estimate in ms or -1}.
local now = clock()
if is_late(now) then return { now } end
local waiter, weight, repeated = parse_waiter(ARGV[2]), tonumber(ARGV[4]), ARGV[6] == '1'
local class_field, flow_field = class_name(waiter.class), flow_name(waiter.class, waiter.tenant)
local tenant_field, offer_field = tenant_name(waiter.tenant), offer_name(waiter.member)
begin(now, class_field, flow_field, tenant_field, offer_field, instance_name(waiter.instance))

local function answer(verdict, first, estimate)
  save()
  return { now, verdict, first, string.format('%.0f', estimate) }
end

-- Returns how long a waiter waits that has a rank in its flow, as fairqueue.Estimate.
local function estimate(rank, own_weight)
  local class, flow = read(class_field), read(flow_field)
  if not class or class.grants < MIN_GRANTS then return -1 end
  local others, ahead = 0, 0
  for _, turn in ipairs(range_of(turns_key, waiter.class, MAX_FLOWS)) do
    local tenant = string.match(turn, '|([^|]*)$')
    if tenant ~= waiter.tenant then
      local other = read(flow_name(waiter.class, tenant))
      others = others + 1
      ahead = ahead + math.min(other.waiting, math.floor(rank * other.weight / own_weight))
    end
  end
  local flows = redis.call('ZLEXCOUNT', written(turns_key), '[' .. waiter.class .. '|', '(' .. waiter.class .. '}')
  if flow and flow.waiting > 0 then flows = flows - 1 end
  if others > 0 and flows > others then ahead = math.floor(ahead * flows / others) end
  local took = (rank + ahead) * math.floor(class.us)
  if flow and flow.grants >= MIN_GRANTS then took = math.max(took, rank * math.floor(flow.us)) end
  return math.floor(took * 5 / 4000)
end

-- Returns the rank that the waiter has, or would have, in its flow.
local function rank_of()
  local flow = read(flow_field)
  if not flow or flow.waiting == 0 then return 1 end
  return redis.call('ZLEXCOUNT', written(line_key), '[' .. waiter.class .. '|' .. waiter.tenant .. '|', '(' .. waiter.member) + 1
end

-- Reports whether one more is too many for a tenant that has some of all, as fairqueue does.
local function exceeds_part(all, own, limit, weights)
  return all >= 2 * limit or all >= limit and (own + 1) * weights > limit * weight
end

local function is_full()
  local pool, class, tenant = read('p'), read(class_field), read(tenant_field) or { waiting = 0, flows = 0 }
  local weights = pool.weights + weight
  if tenant.waiting > 0 then weights = weights - tenant.weight end
  if exceeds_part(pool.waiting, tenant.waiting, tonumber(ARGV[5]), weights) then return true end
  return (not class or class.waiting == 0) and exceeds_part(pool.open, tenant.flows, MAX_CLASSES, weights)
end

if waiter.deadline <= now then return answer(EXPIRED, 0, -1) end
if redis.call('ZSCORE', written(line_key), waiter.member) then
  beat_of(waiter.instance, now)
  return answer(QUEUED, 0, estimate(rank_of(), read(tenant_field).weight))
end
if read(offer_field) then
  beat_of(waiter.instance, now)
  return answer(QUEUED, 0, 0)
end
if not repeated and is_full() then return answer(QUEUE_FULL, 0, -1) end
local expected = estimate(rank_of(), weight)
local others = read(class_field)
if not repeated and others and others.waiting > 0 and expected > waiter.deadline - now then -- alone, it is tried in any case
  return answer(CANNOT_BE_MET, 0, expected)
end

local pool, tenant = edit('p'), edit(tenant_field)
if tenant.waiting > 0 then pool.weights = pool.weights + weight - tenant.weight end
tenant.weight = weight
if not read(class_field) then pool.classes = pool.classes + 1 end
local class, flow = edit(class_field), edit(flow_field)
local first = class.waiting == 0
if first then
  redis.call('HSET', book_key, 'r|' .. waiter.class, ARGV[3])
  class.last = now
  class.offset = math.max(class.offset, pool.virtual - class.virtual)
end
if flow.waiting == 0 then
  local debt = math.min(tenant.finish - class.offset, class.virtual + math.floor(MAX_DEBT * UNIT / weight))
  flow.tag = math.max(flow.tag, class.virtual, debt)
  flow.last = now
end
put(waiter, now)
beat_of(waiter.instance, now)
local instance = edit(instance_name(waiter.instance))
instance.waiters = instance.waiters + 1
save()
if first then extend_life() end
return { now, QUEUED, first and 1 or 0, string.format('%.0f', expected) }
