-- Reads the entries of the list of revocations that were added after a time. Writes nothing.
-- KEYS  entries, times, expiries, version
-- ARGV  time in µs
-- Returns {now, version or false, how many entries the list has, {time, expiry and body of each entry, separated by spaces}}.
local now = clock()
local targets = redis.call('ZRANGE', KEYS[2], '(' .. ARGV[1], '+inf', 'BYSCORE')
local entries = {}
for i = 1, #targets, MAX_UNPACK do
  local values = redis.call('HMGET', KEYS[1], unpack(targets, i, math.min(i + MAX_UNPACK - 1, #targets)))
  for _, value in ipairs(values) do entries[#entries + 1] = value end
end
local count = redis.call('ZCARD', KEYS[2]) - redis.call('ZCOUNT', KEYS[3], '-inf', now)
return { now, redis.call('GET', KEYS[4]), count, entries }
