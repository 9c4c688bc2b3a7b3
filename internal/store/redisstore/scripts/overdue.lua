-- Finds the nodes of one or more shards that were last seen long ago. Writes nothing.
-- KEYS  last_seen …
-- ARGV  minimum age in ms
-- Returns {now, number of all nodes, when the oldest of the others was seen or false if there are none, {node, time, …}}.
local now = clock()
local registered, oldest, overdue = 0, false, {}
if #KEYS > 1 and redis.call('EXISTS', unpack(KEYS)) == 0 then return { now, registered, oldest, overdue } end
local limit = now - tonumber(ARGV[1])
for _, key in ipairs(KEYS) do
  local first = redis.pcall('ZRANGE', key, 0, 0, 'WITHSCORES') -- one of another type has no nodes; the next report replaces it
  if first[1] then registered = registered + redis.call('ZCARD', key) end
  if first[1] and tonumber(first[2]) <= limit then
    for _, part in ipairs(redis.call('ZRANGE', key, '-inf', limit, 'BYSCORE', 'WITHSCORES')) do overdue[#overdue + 1] = part end
    first = redis.call('ZRANGE', key, string.format('(%.0f', limit), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
  end
  if first[1] then oldest = math.min(oldest or now, tonumber(first[2])) end
end
return { now, registered, oldest, overdue }
