-- Says that an instance is present, and makes its inbox if it has none.
-- KEYS  presence, inbox
-- ARGV  not_after, what it says of itself, ttl, how long the inbox is kept after that
-- Returns {now, 1}.
local now = clock()
if late(now) then return { now } end
-- The inbox first: whoever finds the instance present may post.
if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('XGROUP', 'CREATE', KEYS[2], 'inbox', '0', 'MKSTREAM') end
redis.call('PEXPIRE', KEYS[2], ARGV[4])
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return { now, 1 }
