-- include lib_wait
-- Returns a page of the flows that have waiters. Writes nothing.
-- KEYS  line, turns, timers, book, open, held
-- ARGV  the flow after which the page begins, or empty; flows; waiters of each flow
-- Returns {now, 1 if there is another page, else 0, {flow, its record, the record of its class, the requirements of the class, the record of
-- its tenant, {waiters...}}...}.
local now = clock()
local limit = tonumber(ARGV[2])
local from = ARGV[1] == '' and '-' or '(' .. ARGV[1]
local turns = redis.call('ZRANGE', turns_key, from, '+', 'BYLEX', 'LIMIT', 0, limit + 1)
local reply = { now, #turns > limit and 1 or 0 }
for i = 1, math.min(#turns, limit) do
  local class, tenant = string.match(turns[i], '^([^|]*)|.*|([^|]*)$')
  local values = redis.call('HMGET', book_key, flow_name(class, tenant), class_name(class), 'r|' .. class, tenant_name(tenant))
  reply[#reply + 1] = { turns[i], values[1], values[2], values[3], values[4], range_of(line_key, class .. '|' .. tenant, tonumber(ARGV[3])) }
end
return reply
