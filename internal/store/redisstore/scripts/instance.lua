-- Says how an instance is doing. Writes nothing.
-- KEYS  presence, inbox, dead letters
-- ARGV
-- Returns {now, 1 if it has an inbox, letters, of these fetched, dead letters, what it says of itself or false}.
local open, fetched = redis.call('EXISTS', KEYS[2]), 0
if open == 1 then fetched = redis.call('XPENDING', KEYS[2], 'inbox')[1] end
return { clock(), open, redis.call('XLEN', KEYS[2]), fetched, redis.call('XLEN', KEYS[3]), redis.call('GET', KEYS[1]) }
