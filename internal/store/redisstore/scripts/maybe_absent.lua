-- Finds the instances whose last announcement is old. Writes nothing.
-- KEYS  schedulers
-- ARGV  minimum age in ms
-- Returns {now, {instance, …}}.
local now = clock()
return { now, redis.call('ZRANGE', KEYS[1], '-inf', now - tonumber(ARGV[1]), 'BYSCORE') }
