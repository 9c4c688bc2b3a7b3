-- Replaces parts of the history, unless it was written with a higher fence. The time for which it is kept begins again when a hundredth of it
-- is over, not at every write.
-- KEYS  history
-- ARGV  not_after, fence, ttl in ms; then for each part: field, body
-- Returns {now, 1 if they were replaced, else 0}.
local now = clock()
if is_late(now) then return { now } end
local last = read_own_fields(KEYS[1], 'fence', 'extended')
if read_number(last.fence) > tonumber(ARGV[2]) then return { now, 0 } end
local extends = math.abs(now - read_number(last.extended)) >= tonumber(ARGV[3]) * 0.01
redis.call('HSET', KEYS[1], 'fence', ARGV[2], 'extended', extends and now or last.extended, unpack(ARGV, 4))
if extends then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return { now, 1 }
