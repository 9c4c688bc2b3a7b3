-- Writes parts of a value in one step, unless it was written with a higher fence, or has another version than the one that is replaced. A value
-- that has all the parts already stays as it is: the call is repeated.
-- KEYS  value
-- ARGV  not_after, fence or 0, ttl in ms or 0, version that is replaced or ANY_VERSION; then for each part: field, body
-- Returns {now, 1 if the value has the parts now, else 0}.
local now = clock()
if is_late(now) then return { now } end
local own = read_own_fields(KEYS[1], VERSION_FIELDS)
local fence, fields = tonumber(ARGV[2]), {}
if fence > 0 and read_number(own.fence) > fence then return { now, 0 } end
for i = 5, #ARGV, 2 do fields[#fields + 1] = ARGV[i] end
local repeated = #fields > 0
if repeated then
  for i, body in ipairs(redis.call('HMGET', KEYS[1], unpack(fields))) do repeated = repeated and body == ARGV[2 * i + 4] end
end
if not repeated and ARGV[4] ~= ANY_VERSION then
  local version = ''
  for _, name in ipairs({ VERSION_FIELDS }) do version = version .. (own[name] or '') .. ' ' end
  if ARGV[4] ~= version then return { now, 0 } end
end
if not repeated then redis.call('HSET', KEYS[1], 'published', now, unpack(ARGV, 5)) end
if fence > 0 then redis.call('HSET', KEYS[1], 'fence', ARGV[2]) end
if ARGV[3] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return { now, 1 }
