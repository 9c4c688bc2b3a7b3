-- standalone: it runs for every job, and the library would cost more than it saves
-- Marks a lease as running, because its node has acknowledged the job, and renews it.
-- KEYS  leases
-- ARGV  not_after, member, presence in ms
-- Returns a compact reply with the code 1 if the lease is live, 2 if not.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if now > tonumber(ARGV[1]) and ARGV[1] ~= '0' then return { now } end
local score = redis.call('ZSCORE', KEYS[1], ARGV[2])
if not score then return ((now - EPOCH) * COMPACT_CODES + 2) * COMPACT_COUNTS end

-- lib.lua describes the score of a lease.
local tick = math.floor((now - EPOCH) / TICK)
local code = score % CODES
local rest = (score - code) / CODES
local age = rest % AGES
local expires = (rest - age) / AGES
if expires <= tick or code % STATES > RUNNING then return ((now - EPOCH) * COMPACT_CODES + 2) * COMPACT_COUNTS end -- expired, revoked or parked
local renewed = tick + math.ceil(ARGV[3] / TICK) + 1
age = math.min(age + renewed - expires, AGES - 1)
redis.call('ZADD', KEYS[1], string.format('%d', (renewed * AGES + age) * CODES + code - code % STATES + RUNNING), ARGV[2])
return ((now - EPOCH) * COMPACT_CODES + 1) * COMPACT_COUNTS
