-- with letters
-- Moves a letter from an inbox to the dead letters.
-- KEYS  inbox, dead letters
-- ARGV  not_after, id, reason, deliveries, how long dead letters are kept after the last
-- Returns {now, the dead letter's id, empty if there was no such letter}.
local MOST = 10000 -- dead letters, about: whoever lets them pile up loses the oldest
local now = clock()
if late(now) then return { now } end
local entry = redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2])[1]
if not entry then return { now, '' } end
local id = redis.call('XADD', KEYS[2], 'MAXLEN', '~', MOST, '*', 'b', entry[2][2], 'r', ARGV[3], 'n', ARGV[4], 'at', posted(entry))
redis.call('PEXPIRE', KEYS[2], ARGV[5])
redis.call('XACK', KEYS[1], 'inbox', entry[1])
redis.call('XDEL', KEYS[1], entry[1])
return { now, id }
