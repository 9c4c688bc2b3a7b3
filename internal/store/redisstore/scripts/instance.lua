-- Reads the state of an instance. Writes nothing.
-- KEYS  presence, inbox, dead letters
-- ARGV
-- Returns {now, 1 if it has an inbox, messages, pending messages, dead letters, published body or false}.
local has_inbox, pending = redis.call('EXISTS', KEYS[2]), 0
if has_inbox == 1 then pending = redis.call('XPENDING', KEYS[2], INBOX_GROUP)[1] end
return { clock(), has_inbox, redis.call('XLEN', KEYS[2]), pending, redis.call('XLEN', KEYS[3]), redis.call('GET', KEYS[1]) }
