-- Lists when nodes were last seen. Writes nothing.
-- KEYS  last_seen
-- Returns {now, {node, time, …}}.
return { clock(), redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES') }
