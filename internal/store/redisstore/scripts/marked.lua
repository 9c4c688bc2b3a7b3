-- Lists the marks of a node. Writes nothing.
-- KEYS  unavailable
-- Returns {now, {service, until, …}}.
return { clock(), redis.call('HGETALL', KEYS[1]) }
