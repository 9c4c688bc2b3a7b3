-- Records when nodes of one or more shards were last seen, and their digests. A time that is older than the stored one changes nothing.
-- KEYS  last_seen and digests of each shard
-- ARGV  not_after, of each node: the number of its shard in KEYS from 1, name, age in ms, digest, …
-- Returns {now, 1}.
local now = clock()
if is_late(now) then return { now } end
local times, digests = {}, {}
for i = 2, #ARGV, 4 do
  local shard = tonumber(ARGV[i])
  times[shard], digests[shard] = times[shard] or {}, digests[shard] or {}
  local seen, digest = times[shard], digests[shard]
  seen[#seen + 1] = now - tonumber(ARGV[i + 2])
  seen[#seen + 1] = ARGV[i + 1]
  digest[#digest + 1] = ARGV[i + 1]
  digest[#digest + 1] = ARGV[i + 3]
end
for shard, seen in pairs(times) do
  for i = 1, #seen, MAX_UNPACK do
    local last = math.min(i + MAX_UNPACK - 1, #seen)
    redis.call('ZADD', KEYS[2 * shard - 1], 'GT', unpack(seen, i, last))
    redis.call('HSET', KEYS[2 * shard], unpack(digests[shard], i, last))
  end
end
return { now, 1 }
