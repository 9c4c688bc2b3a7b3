-- Lists when nodes were last heard. Writes nothing.
-- KEYS  last_seen
-- Returns {now, {node, when, …}}.
return { clock(), redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES') }
