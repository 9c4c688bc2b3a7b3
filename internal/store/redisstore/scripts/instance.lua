-- Says how an instance is doing. Writes nothing.
-- KEYS  presence, inbox, dead letters
-- ARGV
-- Returns {now, letters, of these fetched, dead letters, what it says of itself or false}.
local fetched = 0
if redis.call('EXISTS', KEYS[2]) == 1 then fetched = redis.call('XPENDING', KEYS[2], 'inbox')[1] end
return { clock(), redis.call('XLEN', KEYS[2]), fetched, redis.call('XLEN', KEYS[3]), redis.call('GET', KEYS[1]) }
