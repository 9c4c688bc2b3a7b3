-- Replaces a setting, unless it is the one in force, or was in force before and is not forced. The field digests lists the digests of the
-- bodies that are or were in force, the last one at the end, with a space between them; digest is the last one. If it restores a setting that
-- was lost, it replaces every earlier one and none else. The digests that the caller knows are kept: the store may have lost them.
-- KEYS  setting
-- ARGV  not_after, body, its digest, mode: publish, force or restore, maximum number of digests, generation that the caller knows or restores,
--       digests that the caller knows; optional: a body that is not that of its digest
-- Returns {now, generation in force, body in force, digests}.
local now = clock()
if is_late(now) then return { now } end
local current = read_own_fields(KEYS[1], 'generation', 'body', 'digests')
local generation, mode, known = read_number(current.generation), ARGV[4], tonumber(ARGV[6])
if generation == 0 or not current.body or current.body == ARGV[8] then current, generation = {}, 0 end -- there is none that can be read
local added, last, replaced = ARGV[3], nil, false
for digest in string.gmatch(current.digests or '', '%x+') do
  last = digest
  replaced = replaced or digest == added
end
if mode == 'restore' then
  if generation >= known then return { now, current.generation, current.body, current.digests } end
  generation = known
else
  if replaced and (last == added or mode ~= 'force') then return { now, current.generation, current.body, current.digests } end
  generation = math.max(generation, known) + 1
end
local digests, listed = {}, { [added] = true }
for digest in string.gmatch(ARGV[7] .. ' ' .. (current.digests or ''), '%x+') do
  if not listed[digest] then digests[#digests + 1] = digest end
  listed[digest] = true
end
digests[#digests + 1] = added
while #digests > tonumber(ARGV[5]) do table.remove(digests, 1) end
local text, list = string.format('%.0f', generation), table.concat(digests, ' ')
redis.call('HSET', KEYS[1], 'generation', text, 'body', ARGV[2], 'digest', added, 'digests', list)
return { now, text, ARGV[2], list }
