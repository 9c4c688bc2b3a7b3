-- with letters
-- Takes in hand the letters of an instance that is not present: what it has not fetched it does not get any more, should it
-- wake up.
-- KEYS  presence, inbox
-- ARGV  not_after, the most
-- Returns {now, {id, when it was posted, body, how often the instance fetched it, …}}.
local now, list = clock(), {}
if late(now) then return { now } end
if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('EXISTS', KEYS[2]) == 0 then return { now, list } end
local fresh = 0
for _, entry in ipairs(redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', ARGV[2])) do
  local pending = redis.call('XPENDING', KEYS[2], 'inbox', entry[1], entry[1], 1)[1]
  if not pending then fresh = fresh + 1 end
  list[#list + 1] = entry[1]
  list[#list + 1] = posted(entry)
  list[#list + 1] = entry[2][2]
  list[#list + 1] = pending and pending[2] ~= HEIR and pending[4] or 0
end
-- The first that were not fetched are those.
if fresh > 0 then redis.call('XREADGROUP', 'GROUP', 'inbox', HEIR, 'COUNT', fresh, 'STREAMS', KEYS[2], '>') end
return { now, list }
