-- include lib_wait
-- Records that an instance is alive, and extends the life of the keys.
-- KEYS  line, turns, timers, book, open, held
-- ARGV  not_after, instance
-- Returns {now, waiters of the instance, 1 if offers were taken back since the last beat of any instance, else 0}.
local now = clock()
if is_late(now) then return { now } end
local name = instance_name(ARGV[2])
open_queue(now, name)
if read(name) then beat_of(ARGV[2], now) end
handle_timers(now)
local pool = edit('p')
local freed = pool.freed
pool.freed = 0
local instance = read(name)
save()
extend_life()
return { now, instance and instance.waiters or 0, freed }
