-- Returns what a tenant uses. Writes nothing.
-- KEYS  jobs, sessions, rates
-- Returns {now, jobs, sessions, ms after which the bucket of dispatches is full, the same of the bucket of audio}.
local now = clock()
local full = redis.call('HMGET', KEYS[3], 'dispatches', 'audio')
local function debt(at) return math.ceil(math.max(0, tonumber(at or 0) - now)) end
return { now, redis.call('ZCOUNT', KEYS[1], '(' .. now, '+inf'), redis.call('ZCOUNT', KEYS[2], '(' .. now, '+inf'), debt(full[1]), debt(full[2]) }
