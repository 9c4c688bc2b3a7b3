-- Counts one use of a key and reports whether it is within the limit of the current window.
-- KEYS  counter
-- ARGV  not_after, limit, window in ms
-- Returns {now, 1 if the use is allowed, else 0}.
local now = clock()
if is_late(now) then return { now } end
local used = redis.pcall('INCR', KEYS[1])
if type(used) ~= 'number' then -- it is no number
  redis.call('DEL', KEYS[1])
  used = redis.call('INCR', KEYS[1])
end
if used == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return { now, used <= tonumber(ARGV[2]) and 1 or 0 }
