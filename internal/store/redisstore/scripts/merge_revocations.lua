-- Merges entries into the list of revocations: of two entries for a target the later one stays. Drops entries that have expired.
-- KEYS  entries, times, expiries, version
-- ARGV  not_after, next version, a time in µs after which new entries are; then for each entry: target; time in µs, 0 for a new one;
--       when it is dropped in ms, 0 for never, of a new one after how many ms; body
-- Returns {now, {time and expiry of each entry; 0 and 0 of one that changes nothing}}.
local now = clock()
if is_late(now) then return { now } end
for i, size in ipairs({ 'HLEN', 'ZCARD', 'ZCARD' }) do
  if type(redis.pcall(size, KEYS[i])) ~= 'number' then redis.call('DEL', unpack(KEYS)) end -- of another type: the list is lost, and restored
end
local expired = redis.call('ZRANGE', KEYS[3], '-inf', now, 'BYSCORE', 'LIMIT', 0, MAX_UNPACK)
for _, target in ipairs(expired) do
  redis.call('HDEL', KEYS[1], target)
  redis.call('ZREM', KEYS[2], target)
  redis.call('ZREM', KEYS[3], target)
end
-- A new entry is later than every other one, also after the clock was set back: readers ask for what was added after the last entry.
-- It is later than those that only its writer knows, too: a new primary may have lost them.
local t, last = redis.call('TIME'), redis.call('ZRANGE', KEYS[2], '(' .. MAX_SCORE, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
local next_time = math.max(t[1] * 1000000 + t[2], tonumber(last[2] or 0) + 1, tonumber(ARGV[3]) + 1)
local times, written = {}, false
for i = 4, #ARGV, 4 do
  local target, at, expires = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local stored = tonumber(redis.call('ZSCORE', KEYS[2], target) or 0)
  if stored >= MAX_SCORE then stored = 0 end -- it is no time
  if at == 0 then
    at, next_time = next_time, next_time + 1
    if expires > 0 then expires = now + expires end
  end
  local at_text, expires_text = '0', '0'
  if at > stored and (expires == 0 or expires > now) then
    at_text, expires_text, written = string.format('%.0f', at), string.format('%.0f', expires), true
    redis.call('HSET', KEYS[1], target, at_text .. ' ' .. expires_text .. ' ' .. ARGV[i + 3])
    redis.call('ZADD', KEYS[2], at_text, target)
    if expires > 0 then
      redis.call('ZADD', KEYS[3], expires_text, target)
    else
      redis.call('ZREM', KEYS[3], target)
    end
  end
  times[#times + 1] = at_text
  times[#times + 1] = expires_text
end
if written then redis.call('SET', KEYS[4], ARGV[2]) end
return { now, times }
