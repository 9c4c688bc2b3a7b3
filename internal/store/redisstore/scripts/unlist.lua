-- Removes a node from the list of a shard, with its digest. Another instance may record at the same time that it was seen: then both are there, or
-- neither is, and what is in the list is found and removed again.
-- KEYS  last_seen, digests
-- ARGV  not_after, node
-- Returns {now, 1}.
local now = clock()
if is_late(now) then return { now } end
redis.call('ZREM', KEYS[1], ARGV[2])
redis.call('HDEL', KEYS[2], ARGV[2])
return { now, 1 }
