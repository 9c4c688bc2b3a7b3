-- Appends a dead letter to the inbox of an instance that is present, with its original age. A dead letter that was just replayed to
-- the same instance is not appended again.
-- KEYS  presence, inbox, marker that it was replayed
-- ARGV  not_after, maximum of messages, body, age in ms, ttl of the marker in ms
-- Returns {now, ACCEPTED, INSTANCE_ABSENT or INBOX_FULL}.
local now = clock()
if is_late(now) then return { now } end
if redis.call('EXISTS', KEYS[1]) == 0 then return { now, INSTANCE_ABSENT } end
if redis.call('EXISTS', KEYS[3]) == 1 then return { now, ACCEPTED } end
if redis.call('XLEN', KEYS[2]) >= tonumber(ARGV[2]) then return { now, INBOX_FULL } end
redis.call('SET', KEYS[3], '1', 'PX', ARGV[5])
redis.call('XADD', KEYS[2], '*', 'b', ARGV[3], POSTED_FIELD, string.format('%.0f-0', now - tonumber(ARGV[4])))
return { now, ACCEPTED }
