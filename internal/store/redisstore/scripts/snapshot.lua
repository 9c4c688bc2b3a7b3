-- Reads the current snapshot. Writes nothing.
-- KEYS  snapshot
-- ARGV  fence and time of publication of the snapshot that the caller knows, 0 for none
-- Returns {now, fence or false, when it was published, body or false if the caller knows it}.
local id = redis.call('HMGET', KEYS[1], 'fence', 'published')
local known = id[1] == ARGV[1] and id[2] == ARGV[2]
return { clock(), id[1], id[2], not known and redis.call('HGET', KEYS[1], 'body') }
