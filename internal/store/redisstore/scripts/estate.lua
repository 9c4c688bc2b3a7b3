-- Reads the letters of an instance that is not present. Writes nothing.
-- KEYS  presence, inbox
-- ARGV  the most
-- Returns {now, {id, body, deliveries, …}}.
local now, list = clock(), {}
if redis.call('EXISTS', KEYS[1]) == 1 then return { now, list } end
for _, entry in ipairs(redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', ARGV[1])) do
  local pending = redis.call('XPENDING', KEYS[2], 'inbox', entry[1], entry[1], 1)[1]
  list[#list + 1] = entry[1]
  list[#list + 1] = entry[2][2]
  list[#list + 1] = pending and pending[4] or 0
end
return { now, list }
