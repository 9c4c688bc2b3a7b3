-- Reads the current snapshot. Writes nothing.
-- KEYS  snapshot
-- Returns {now, fence or false, when it was published, body}.
return { clock(), unpack(redis.call('HMGET', KEYS[1], 'fence', 'published', 'body')) }
