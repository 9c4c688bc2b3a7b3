-- Marks a service of a node as unavailable for a while, and removes expired marks. The value of a mark is its expiry, the epoch and the
-- version of the node, with colons between them.
-- KEYS  meta, unavailable
-- ARGV  not_after, mark, duration in ms, epoch, version of the node
-- Returns {now, the version of the node in the mark, or NOT_REGISTERED if the node is not in the epoch}.
local now = clock()
if is_late(now) then return { now } end
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[4] then return { now, NOT_REGISTERED } end
local marks = redis.call('HGETALL', KEYS[2])
local version, expires = tonumber(ARGV[5]), now + tonumber(ARGV[3])
local latest, kept, first, first_expires = expires, 0, false, false
for i = 1, #marks, 2 do
  local until_ms, epoch, marked_version = string.match(marks[i + 1], '^(%d+):(%d+):(%d+)$')
  until_ms = tonumber(until_ms or 0)
  if until_ms <= now then
    redis.call('HDEL', KEYS[2], marks[i])
  elseif marks[i] == ARGV[2] then
    if epoch == ARGV[4] then version = math.max(version, tonumber(marked_version)) end
  else
    kept = kept + 1
    latest = math.max(latest, until_ms)
    if not first or until_ms < first_expires then first, first_expires = marks[i], until_ms end
  end
end
if kept >= MAX_MARKS then redis.call('HDEL', KEYS[2], first) end
redis.call('HSET', KEYS[2], ARGV[2], string.format('%.0f:%s:%.0f', expires, ARGV[4], version))
redis.call('PEXPIREAT', KEYS[2], latest)
return { now, version }
