-- include lib_tenant
-- Returns what a tenant uses. Writes nothing.
-- KEYS  jobs, sessions, rates
-- Returns {now, jobs, sessions, ms after which the bucket of dispatches is full, the same of the bucket of audio}.
local now = clock()
local full = redis.call('HMGET', KEYS[3], 'dispatches', 'audio')
local function debt(at) return math.ceil(math.max(0, full_at(at) - now)) end
local function count(members)
  local n = redis.call('ZCOUNT', members, '(' .. now, '(+inf')
  local closed = redis.call('ZSCORE', members, closed_mark)
  return closed and tonumber(closed) > now and n - 1 or n
end
return { now, count(KEYS[1]), count(KEYS[2]), debt(full[1]), debt(full[2]) }
