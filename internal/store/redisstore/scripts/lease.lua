-- Reads one lease. Writes nothing.
-- KEYS  leases
-- ARGV  member
-- Returns {now, score}, the score false when the set does not contain it.
return { clock(), redis.call('ZSCORE', KEYS[1], ARGV[1]) }
