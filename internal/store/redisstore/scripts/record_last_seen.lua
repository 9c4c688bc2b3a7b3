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
-- Runs a command that writes a key. A key of another type is removed first.
local function write(key, command, ...)
  if type(redis.pcall(command, key, ...)) == 'number' then return end
  redis.call('DEL', key)
  redis.call(command, key, ...)
end
for shard, seen in pairs(times) do
  for i = 1, #seen, MAX_UNPACK do
    local last = math.min(i + MAX_UNPACK - 1, #seen)
    write(KEYS[2 * shard - 1], 'ZADD', 'GT', unpack(seen, i, last))
    write(KEYS[2 * shard], 'HSET', unpack(digests[shard], i, last))
  end
end
return { now, 1 }
