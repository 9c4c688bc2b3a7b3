-- Lists when the nodes of a shard were last seen, and their digests. Writes nothing.
-- KEYS  last_seen, digests
-- Returns {now, {node, time, …}, {node, digest, …}}.
return { clock(), redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), redis.call('HGETALL', KEYS[2]) }
