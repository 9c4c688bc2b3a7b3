-- Reads a setting. Writes nothing.
-- KEYS  setting
-- ARGV  generation and digest that the caller knows, 0 and '' for none
-- Returns {now, generation or false, digest, body or false if the caller knows it}.
local generation, digests = unpack(redis.call('HMGET', KEYS[1], 'generation', 'digests'))
if not generation then return { clock(), false } end
local digest = string.match(digests, '%x+$')
local known = generation == ARGV[1] and digest == ARGV[2]
return { clock(), generation, digest, not known and redis.call('HGET', KEYS[1], 'body') }
