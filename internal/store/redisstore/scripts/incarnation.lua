-- Reads the incarnation of the store, and starts one if the store is empty or has none that can be read. One whose beginning cannot be read
-- begins now: then jobs of an earlier one are expected for longer than necessary.
-- KEYS  incarnation
-- ARGV  not_after, id of a new incarnation
-- Returns {now, id, when it began, 1 if it began with this call, else 0}.
local now = clock()
if is_late(now) then return { now } end
local current = redis.pcall('HMGET', KEYS[1], 'id', 'began')
local id, began = current[1], read_number(current[2])
if not id or id == '' then
  redis.call('DEL', KEYS[1]) -- it may be of another type
  redis.call('HSET', KEYS[1], 'id', ARGV[2], 'began', now)
  return { now, ARGV[2], now, 1 }
end
if began == 0 or began > now then
  began = now
  redis.call('HSET', KEYS[1], 'began', now)
end
return { now, id, began, 0 }
