-- include lib_wait
-- Settles what becomes of a waiter: it was served, it gives up, or it returns its offer, because no slot of the node was free. Then it gets its
-- place again, unless it has expired.
-- KEYS  line, turns, timers, book, open, held
-- ARGV  not_after, waiter, how
-- Returns {now, 1}.
local now = clock()
if is_late(now) then return { now } end
local waiter, how = parse_waiter(ARGV[2]), tonumber(ARGV[3])
begin(now, offer_name(waiter.member), class_name(waiter.class), flow_name(waiter.class, waiter.tenant), tenant_name(waiter.tenant),
  instance_name(waiter.instance))
local offer, served = read(offer_name(waiter.member)), how == SERVED
if how == RETURNED then
  if offer then take_back(waiter, offer, now) end
elseif offer then
  end_offer(waiter)
  leave(waiter)
  if served then
    count_grant(waiter, now)
  else
    refund(waiter, offer)
    edit('p').freed = 1
  end
elseif redis.call('ZSCORE', written(line_key), waiter.member) then
  if served then -- its offer was taken back while the slot was reserved
    local class, tenant = edit(class_name(waiter.class)), edit(tenant_name(waiter.tenant))
    local flow, charge = edit(flow_name(waiter.class, waiter.tenant)), charge_of(tenant)
    tenant.finish = math.max(tenant.finish, flow.tag + charge + class.offset)
    set_tag(waiter.class, waiter.tenant, flow, flow.tag + charge)
    count_grant(waiter, now)
  end
  take(waiter, now)
  leave(waiter)
end
save()
return { now, 1 }
