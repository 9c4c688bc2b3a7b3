-- include lib_inbox
-- Moves a message from an inbox to its dead letters. When there are more than MAX_DEAD_LETTERS, about, the oldest are dropped.
-- KEYS  inbox, dead letters
-- ARGV  not_after, id, reason, deliveries, ttl of the dead letters in ms
-- Returns {now, id of the dead letter, '' if there is no such message}.
local now = clock()
if is_late(now) then return { now } end
local entry = redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2])[1]
if not entry then return { now, '' } end
local id = redis.call('XADD', KEYS[2], 'MAXLEN', '~', MAX_DEAD_LETTERS, '*', 'b', entry[2][2], 'r', ARGV[3], 'n', ARGV[4],
  POSTED_FIELD, posted_at(entry))
redis.call('PEXPIRE', KEYS[2], ARGV[5])
redis.call('XACK', KEYS[1], INBOX_GROUP, entry[1])
redis.call('XDEL', KEYS[1], entry[1])
return { now, id }
