-- include lib_inbox
-- Returns the oldest messages of an absent instance. Those that it never fetched become pending for another consumer: if the instance
-- comes back, it does not fetch them.
-- KEYS  presence, inbox
-- ARGV  not_after, limit
-- Returns {now, {id, posted at, body, deliveries to the instance, …}}.
local now, list = clock(), {}
if is_late(now) then return { now } end
if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('EXISTS', KEYS[2]) == 0 then return { now, list } end
local unfetched = 0
for _, entry in ipairs(redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', ARGV[2])) do
  local pending = redis.call('XPENDING', KEYS[2], INBOX_GROUP, entry[1], entry[1], 1)[1]
  if not pending then unfetched = unfetched + 1 end
  list[#list + 1] = entry[1]
  list[#list + 1] = posted_at(entry)
  list[#list + 1] = entry[2][2]
  list[#list + 1] = pending and pending[2] ~= TAKEOVER_CONSUMER and pending[4] or 0
end
-- The next unfetched messages of the group are the unfetched ones of the list.
if unfetched > 0 then
  redis.call('XREADGROUP', 'GROUP', INBOX_GROUP, TAKEOVER_CONSUMER, 'COUNT', unfetched, 'STREAMS', KEYS[2], '>')
end
return { now, list }
