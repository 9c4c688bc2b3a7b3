-- alone: on the way of every job, where what scripts share would cost more than it saves
-- Notes that the node has confirmed a job.
-- KEYS  leases
-- ARGV  not_after, member, presence
-- Returns, in brief, the code 1 if the lease lives, 2 if not.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if now > tonumber(ARGV[1]) and ARGV[1] ~= '0' then return { now } end
local score = redis.call('ZSCORE', KEYS[1], ARGV[2])
if not score then return ((now - 1704067200000) * 16 + 2) * 256 end

-- lib.lua says how a score holds a lease.
local tick = math.floor((now - 1704067200000) / 100)
local code = score % 16
local rest = (score - code) / 16
local age = rest % 65536
local expires = (rest - age) / 65536
if expires <= tick or code % 4 > 1 then return ((now - 1704067200000) * 16 + 2) * 256 end -- lapsed, revoked or parked
local renewed = tick + math.ceil(ARGV[3] / 100) + 1
age = math.min(age + renewed - expires, 65535)
redis.call('ZADD', KEYS[1], string.format('%d', (renewed * 65536 + age) * 16 + code - code % 4 + 1), ARGV[2])
return ((now - 1704067200000) * 16 + 1) * 256
