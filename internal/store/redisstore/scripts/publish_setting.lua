-- Replaces a setting, unless it is the one in force, or was in force before and is not forced. The field digests lists the digests of the
-- bodies that are or were in force, the last one at the end, with a space between them. If it restores a setting that was lost, it replaces
-- every earlier one and none else.
-- KEYS  setting
-- ARGV  not_after, body, its digest, mode: publish, force or restore, maximum number of digests, generation that the caller knows or restores
-- Returns {now, generation in force, body in force}.
local now = clock()
if is_late(now) then return { now } end
local current = redis.call('HMGET', KEYS[1], 'generation', 'body', 'digests')
local generation, mode, restored = tonumber(current[1] or '0'), ARGV[4], tonumber(ARGV[6])
local digests, added, last = {}, ARGV[3], nil
local known = false
for digest in string.gmatch(current[3] or '', '%x+') do
  last = digest
  if digest == added then known = true else digests[#digests + 1] = digest end
end
if mode == 'restore' then
  if generation >= restored then return { now, current[1], current[2] } end
  generation = restored
else
  if known and (last == added or mode ~= 'force') then return { now, current[1], current[2] } end
  generation = math.max(generation, restored) + 1
end
digests[#digests + 1] = added
while #digests > tonumber(ARGV[5]) do table.remove(digests, 1) end
local text = string.format('%.0f', generation)
redis.call('HSET', KEYS[1], 'generation', text, 'body', ARGV[2], 'digests', table.concat(digests, ' '))
return { now, text, ARGV[2] }
