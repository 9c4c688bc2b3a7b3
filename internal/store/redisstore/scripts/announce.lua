-- Makes an instance present, and creates its inbox if it has none.
-- KEYS  presence, inbox
-- ARGV  not_after, body that the instance publishes, ttl in ms, ttl of the inbox in ms
-- Returns {now, 1 if the inbox was created, else 0}.
local now = clock()
if is_late(now) then return { now } end
-- The inbox comes first: an instance that finds this one present may post.
if type(redis.pcall('XLEN', KEYS[2])) ~= 'number' then redis.call('DEL', KEYS[2]) end -- it is of another type
local created = redis.call('PEXPIRE', KEYS[2], ARGV[4]) == 0
if created then
  redis.call('XGROUP', 'CREATE', KEYS[2], INBOX_GROUP, '0', 'MKSTREAM')
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return { now, created and 1 or 0 }
