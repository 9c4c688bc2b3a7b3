-- include lib_wait
-- Takes an offer back, because no slot of the node was free. The waiter gets its place again, unless it has expired.
-- KEYS  line, turns, timers, book, open, held
-- ARGV  not_after, waiter
-- Returns {now, 1 if the waiter is in the line, else 0}.
local now = clock()
if is_late(now) then return { now } end
local waiter = parse_waiter(ARGV[2])
begin(now, offer_name(waiter.member), class_name(waiter.class), flow_name(waiter.class, waiter.tenant), tenant_name(waiter.tenant))
local offer = read(offer_name(waiter.member))
local there
if offer then
  there = take_back(waiter, offer, now)
else
  there = redis.call('ZSCORE', written(line_key), waiter.member)
end
save()
return { now, there and 1 or 0 }
