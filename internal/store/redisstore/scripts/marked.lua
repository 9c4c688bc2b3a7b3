-- Lists the marks of a node. Writes nothing.
-- KEYS  unavailable
-- Returns {now, {service, expiry, …}}.
return { clock(), redis.call('HGETALL', KEYS[1]) }
