-- Removes messages from an inbox.
-- KEYS  inbox
-- ARGV  not_after, ids
-- Returns {now, 1}.
local now = clock()
if is_late(now) then return { now } end
for i = 2, #ARGV do
  redis.call('XACK', KEYS[1], INBOX_GROUP, ARGV[i])
  redis.call('XDEL', KEYS[1], ARGV[i])
end
return { now, 1 }
