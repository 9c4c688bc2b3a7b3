-- Lists every lease of a node, live or not. Writes nothing.
-- KEYS  leases
-- Returns {now, {member, score, …}}.
return { clock(), redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES') }
