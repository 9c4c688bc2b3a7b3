-- Reads a setting. Writes nothing.
-- KEYS  setting
-- ARGV  generation that the caller knows, 0 for none
-- Returns {now, generation or false, body or false if the caller knows it}.
local generation = redis.call('HGET', KEYS[1], 'generation')
return { clock(), generation, generation ~= ARGV[1] and redis.call('HGET', KEYS[1], 'body') }
