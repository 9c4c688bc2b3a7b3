-- with letters
-- Claims a dead letter for whoever wants to replay it: nobody else may, nor discard it, until the claim is over. A ttl of 0
-- gives a claim back.
-- KEYS  dead letters, claims
-- ARGV  not_after, id, who, ttl
-- Returns {now, 1 if it is claimed, 0 if there is no such letter or another has it, body, age}.
local now = clock()
if late(now) then return { now } end
local entry = redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2])[1]
local untill, who = claim_of(KEYS[2], ARGV[2])
local mine = who == ARGV[3]
local ttl = tonumber(ARGV[4])
if ttl == 0 then
  if mine then redis.call('HDEL', KEYS[2], ARGV[2]) end
  return { now, 0 }
end
if not entry or (untill > now and not mine) then return { now, 0 } end
redis.call('HSET', KEYS[2], ARGV[2], string.format('%.0f %s', now + ttl, ARGV[3]))
redis.call('PEXPIRE', KEYS[2], ttl)
return { now, 1, entry[2][2], math.max(now - millis_of(posted(entry)), 0) }
