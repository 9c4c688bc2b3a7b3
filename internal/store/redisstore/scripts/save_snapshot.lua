-- Publishes a snapshot, unless the current one has a higher fence. A repeated call does not make the snapshot younger.
-- KEYS  snapshot
-- ARGV  not_after, fence, body, ttl in ms
-- Returns {now, 1 if it was published, else 0}.
local now = clock()
if is_late(now) then return { now } end
local last = read_own_fields(KEYS[1], 'fence', 'body', 'published')
if read_number(last.fence) > tonumber(ARGV[2]) then return { now, 0 } end
local published = read_number(last.published)
if last.body ~= ARGV[3] or published == 0 then published = now end
redis.call('HSET', KEYS[1], 'body', ARGV[3], 'published', published, 'fence', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return { now, 1 }
