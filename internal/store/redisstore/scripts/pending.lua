-- include lib_inbox
-- Returns messages that were fetched a while ago and are not acknowledged, which counts as another delivery of them.
-- KEYS  inbox
-- ARGV  not_after, minimum idle time in ms, limit
-- Returns {now, {id, posted at, body, deliveries, …}}.
local now = clock()
if is_late(now) then return { now } end
local list = {}
if redis.call('EXISTS', KEYS[1]) == 0 then return { now, list } end
local pending = redis.call('XPENDING', KEYS[1], INBOX_GROUP, 'IDLE', ARGV[2], '-', '+', ARGV[3])
for _, p in ipairs(pending) do
  local deliveries = p[2] == TAKEOVER_CONSUMER and 1 or p[4] + 1 -- a read by fetch_abandoned.lua is no delivery to the instance
  local entry = redis.call('XCLAIM', KEYS[1], INBOX_GROUP, INBOX_GROUP, 0, p[1], 'RETRYCOUNT', deliveries)[1]
  if entry then
    list[#list + 1] = entry[1]
    list[#list + 1] = posted_at(entry)
    list[#list + 1] = entry[2][2]
    list[#list + 1] = deliveries
  else
    redis.call('XACK', KEYS[1], INBOX_GROUP, p[1]) -- its message was removed
  end
end
return { now, list }
