-- with letters
-- Takes up letters that were fetched a while ago and are not settled.
-- KEYS  inbox
-- ARGV  not_after, how long ago, the most
-- Returns {now, {id, when it was posted, body, deliveries, …}}.
local now = clock()
if late(now) then return { now } end
local list = {}
if redis.call('EXISTS', KEYS[1]) == 0 then return { now, list } end
local pending = redis.call('XPENDING', KEYS[1], 'inbox', 'IDLE', ARGV[2], '-', '+', ARGV[3])
for _, p in ipairs(pending) do
  local times = p[2] == HEIR and 1 or p[4] + 1 -- what an heir took in hand and left was not fetched
  local entry = redis.call('XCLAIM', KEYS[1], 'inbox', 'inbox', 0, p[1], 'RETRYCOUNT', times)[1]
  if entry then
    list[#list + 1] = entry[1]
    list[#list + 1] = posted(entry)
    list[#list + 1] = entry[2][2]
    list[#list + 1] = times
  else
    redis.call('XACK', KEYS[1], 'inbox', p[1]) -- its letter is gone
  end
end
return { now, list }
