-- Replaces a setting, unless it is the one in force, or was in force before and is not forced. The field digests lists the digests of the
-- bodies that are or were in force, the last one at the end, with a space between them; digest is the last one. If it restores a setting that
-- was lost, it replaces every earlier one and none else. The digests that the caller knows are kept: the store may have lost them.
-- KEYS  setting
-- ARGV  not_after, body, its digest, mode: publish, force or restore, maximum number of digests, generation that the caller knows or restores,
--       digests that the caller knows
-- Returns {now, generation in force, body in force, digests}.
local now = clock()
if is_late(now) then return { now } end
local current = redis.call('HMGET', KEYS[1], 'generation', 'body', 'digests')
local generation, mode, known = tonumber(current[1] or '0') or 0, ARGV[4], tonumber(ARGV[6])
local added, last, replaced = ARGV[3], nil, false
for digest in string.gmatch(current[3] or '', '%x+') do
  last = digest
  replaced = replaced or digest == added
end
if mode == 'restore' then
  if generation >= known then return { now, current[1], current[2], current[3] } end
  generation = known
else
  if replaced and (last == added or mode ~= 'force') then return { now, current[1], current[2], current[3] } end
  generation = math.max(generation, known) + 1
end
local digests, listed = {}, { [added] = true }
for digest in string.gmatch(ARGV[7] .. ' ' .. (current[3] or ''), '%x+') do
  if not listed[digest] then digests[#digests + 1] = digest end
  listed[digest] = true
end
digests[#digests + 1] = added
while #digests > tonumber(ARGV[5]) do table.remove(digests, 1) end
local text, list = string.format('%.0f', generation), table.concat(digests, ' ')
redis.call('HSET', KEYS[1], 'generation', text, 'body', ARGV[2], 'digest', added, 'digests', list)
return { now, text, ARGV[2], list }
