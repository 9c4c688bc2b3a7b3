-- Lists the marks of a node. Writes nothing.
-- KEYS  unavailable
-- Returns {now, {mark, expiry:epoch:version of the node, …}}.
return { clock(), redis.call('HGETALL', KEYS[1]) }
