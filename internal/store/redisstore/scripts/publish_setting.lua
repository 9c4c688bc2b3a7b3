-- Replaces a setting, unless it is the one in force, or was in force before and is not forced. The field digests lists the digests of the
-- bodies that are or were in force, the last one at the end, with a space after each.
-- KEYS  setting
-- ARGV  not_after, body, its digest, 1 if it is forced, maximum number of digests
-- Returns {now, generation in force, body in force}.
local now = clock()
if is_late(now) then return { now } end
local current = redis.call('HMGET', KEYS[1], 'generation', 'body', 'digests')
local digests, added, last = {}, ARGV[3], nil
local known = false
for digest in string.gmatch(current[3] or '', '%x+') do
  last = digest
  if digest == added then known = true else digests[#digests + 1] = digest end
end
if known and (last == added or ARGV[4] ~= '1') then return { now, current[1], current[2] } end
digests[#digests + 1] = added
while #digests > tonumber(ARGV[5]) do table.remove(digests, 1) end
local generation = tostring(tonumber(current[1] or '0') + 1)
redis.call('HSET', KEYS[1], 'generation', generation, 'body', ARGV[2], 'digests', table.concat(digests, ' '))
return { now, generation, ARGV[2] }
