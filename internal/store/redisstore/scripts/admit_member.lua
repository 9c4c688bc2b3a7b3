-- include lib_tenant
-- Adds a job or a session to those of its tenant, unless a limit of the tenant forbids it, and takes the tokens of a job. A bucket is the
-- time at which it is full: taking tokens postpones it by the time after which they are refilled. One that is a member gets the ttl and takes
-- nothing more. If the set was lost, no more are added than are restored for some time: others have members that they will restore.
-- KEYS  members, rates, known
-- ARGV  not_after, member, ttl in ms, maximum number of members or 0, or -1 to restore one, which never expires earlier thereby, cost
--       and burst of a dispatch in ms, cost and burst of the audio in ms, 1 if the caller knows that there is a set, ms for which one that
--       was lost is closed; a cost of 0 is for a bucket that does not limit
-- Returns {now, 0 if it is a member now, else 1 if there are too many, 2 for too many dispatches, 3 for too much audio, 4 if the set was lost, members,
-- retry in ms}.
local now = clock()
if is_late(now) then return { now } end
if type(redis.pcall('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)) ~= 'number' then redis.call('DEL', KEYS[1]) end -- it is of another type
local used = redis.call('ZCARD', KEYS[1])
local scores = redis.call('ZMSCORE', KEYS[1], ARGV[2], set_mark, closed_mark)
local expires, closed = scores[1], tonumber(scores[3])
local max, ttl = tonumber(ARGV[4]), tonumber(ARGV[3])
if not scores[2] then
  redis.call('ZADD', KEYS[1], '+inf', set_mark)
  used = used + 1
  if ARGV[9] == '1' or redis.call('EXISTS', KEYS[3]) == 1 then
    closed = now + ARGV[10]
    redis.call('ZADD', KEYS[1], closed, closed_mark)
    used = used + 1
  end
  extend_members(KEYS[1], KEYS[3], ttl)
end
used = used - (closed and 2 or 1)
if expires then
  if max >= 0 or tonumber(expires) < now + ttl then redis.call('ZADD', KEYS[1], now + ttl, ARGV[2]) end
  extend_members(KEYS[1], KEYS[3], ttl)
  return { now, 0, used, 0 }
end
if max > 0 and closed then return { now, 4, used, closed - now } end
if max > 0 and used >= max then return { now, 1, used, 0 } end
local cost, burst = tonumber(ARGV[5]), tonumber(ARGV[6])
local audio_cost, audio_burst = tonumber(ARGV[7]), tonumber(ARGV[8])
if cost > 0 or audio_cost > 0 then
  local full = read_own_fields(KEYS[2], 'dispatches', 'audio')
  local debt = math.max(0, full_at(full.dispatches) - now)
  if debt > burst + 1 then debt = burst - cost end -- of a lower rate, before a reload: one job may begin
  local audio_debt = math.max(0, full_at(full.audio) - now)
  if cost > 0 and debt + cost > burst then return { now, 2, used, math.ceil(debt + cost - burst) } end
  if audio_cost > 0 and audio_debt > audio_burst then return { now, 3, used, math.ceil(audio_debt - audio_burst) } end
  debt, audio_debt = debt + cost, audio_debt + audio_cost
  redis.call('HSET', KEYS[2], 'dispatches', string.format('%.3f', now + debt), 'audio', string.format('%.3f', now + audio_debt))
  redis.call('PEXPIRE', KEYS[2], math.ceil(math.max(debt, audio_debt)) + 1)
end
redis.call('ZADD', KEYS[1], now + ttl, ARGV[2])
extend_members(KEYS[1], KEYS[3], ttl)
return { now, 0, used + 1, 0 }
