-- Takes letters out of an inbox.
-- KEYS  inbox
-- ARGV  not_after, ids
-- Returns {now, 1}.
local now = clock()
if late(now) then return { now } end
for i = 2, #ARGV do
  redis.call('XACK', KEYS[1], 'inbox', ARGV[i])
  redis.call('XDEL', KEYS[1], ARGV[i])
end
return { now, 1 }
