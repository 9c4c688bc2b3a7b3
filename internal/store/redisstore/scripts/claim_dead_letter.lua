-- include lib_inbox
-- Claims a dead letter for an instance that replays it: until the claim expires, no other instance may replay or discard it. A ttl of
-- 0 releases the instance's own claim.
-- KEYS  dead letters, claims
-- ARGV  not_after, id, instance, ttl in ms
-- Returns {now, 1 if it is claimed, body, age in ms}, or {now, 0} if there is no such dead letter or another instance has claimed it.
local now = clock()
if is_late(now) then return { now } end
local entry = redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2])[1]
local expires, claimant = read_claim(KEYS[2], ARGV[2])
local is_own = claimant == ARGV[3]
local ttl = tonumber(ARGV[4])
if ttl == 0 then
  if is_own then redis.call('HDEL', KEYS[2], ARGV[2]) end
  return { now, 0 }
end
if not entry or (expires > now and not is_own) then return { now, 0 } end
redis.call('HSET', KEYS[2], ARGV[2], string.format('%.0f %s', now + ttl, ARGV[3]))
redis.call('PEXPIRE', KEYS[2], ttl)
return { now, 1, entry[2][2], math.max(now - entry_millis(posted_at(entry)), 0) }
