-- include lib_tenant
-- Postpones the expiry of jobs or sessions of a tenant. With a ttl of 0 it only says which are missing.
-- KEYS  members, known
-- ARGV  not_after, ttl in ms, member …; at most MAX_UNPACK members
-- Returns {now, {member that is not there, …}}.
local now = clock()
if is_late(now) then return { now } end
local ttl, missing = tonumber(ARGV[2]), {}
local scores = redis.call('ZMSCORE', KEYS[1], unpack(ARGV, 3))
for i, score in ipairs(scores) do
  if not score or tonumber(score) <= now then
    missing[#missing + 1] = ARGV[i + 2]
  elseif tonumber(score) < now + ttl then
    redis.call('ZADD', KEYS[1], now + ttl, ARGV[i + 2])
  end
end
if ttl > 0 and #missing < #scores then extend_members(KEYS[1], KEYS[2], ttl) end
return { now, missing }
