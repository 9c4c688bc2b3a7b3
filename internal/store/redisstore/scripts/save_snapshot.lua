-- Publishes a snapshot, unless the current one has a higher fence. A repeated call does not make the snapshot younger.
-- KEYS  snapshot
-- ARGV  not_after, fence, body, ttl in ms
-- Returns {now, 1 if it was published, else 0}.
local now = clock()
if is_late(now) then return { now } end
local last = read_fields(KEYS[1], 'fence', 'body', 'published')
if tonumber(last.fence or 0) > tonumber(ARGV[2]) then return { now, 0 } end
local published = last.body == ARGV[3] and last.published or now
redis.call('HSET', KEYS[1], 'body', ARGV[3], 'published', published, 'fence', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return { now, 1 }
