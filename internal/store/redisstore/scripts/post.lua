-- Appends a message to the inbox of an instance that is present.
-- KEYS  presence, inbox
-- ARGV  not_after, maximum of messages, body
-- Returns {now, ACCEPTED, INSTANCE_ABSENT or INBOX_FULL}.
local now = clock()
if is_late(now) then return { now } end
if redis.call('EXISTS', KEYS[1]) == 0 then return { now, INSTANCE_ABSENT } end
if redis.call('XLEN', KEYS[2]) >= tonumber(ARGV[2]) then return { now, INBOX_FULL } end
redis.call('XADD', KEYS[2], '*', 'b', ARGV[3])
return { now, ACCEPTED }
