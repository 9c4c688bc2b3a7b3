-- Replaces the state of a session, if the caller owns the session or may take it over.
-- KEYS  state, out, waiting
-- ARGV  not_after, epoch, incarnation, owner, 1 to take it over, body, ttl in ms, messages that the owner knows, last position that the
--       client has acknowledged, expected body of a takeover
-- Returns {now, 1 if the state was saved, else 0}.
local now = clock()
if is_late(now) then return { now } end
local epoch, incarnation, owner = session_owner(KEYS[1])
local own_epoch, state = tonumber(ARGV[2]), ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4] .. '\n' .. ARGV[6]
if epoch > 0 and incarnation ~= ARGV[3] then return { now, 0 } end
local held
if ARGV[5] == '1' then
  -- Only the state that the caller has read is taken over: the owner may have continued meanwhile. An identical state is a repeated
  -- call whose first reply was lost.
  local stored = redis.call('GET', KEYS[1])
  held = stored == state or epoch == own_epoch - 1 and (stored and string.match(stored, '\n(.*)$') or '') == ARGV[10]
else
  -- A store that has lost its last writes accepts the word of the current owner.
  held = epoch == own_epoch and owner == ARGV[4] or epoch < own_epoch
end
if not held then return { now, 0 } end
redis.call('SET', KEYS[1], state, 'PX', ARGV[7])
-- The outbox is kept as long as the state. If the store has lost messages, positions continue after those that the owner knows;
-- acknowledged messages are dropped.
local outbox, known, acked = read_outbox(KEYS[3]), tonumber(ARGV[8]), tonumber(ARGV[9])
local changed = false
if outbox.next < known then
  outbox.next = known
  append_waiting(KEYS[2], KEYS[3], outbox)
  changed = true
end
if acked > outbox.acked then
  outbox.acked = acked
  redis.call('XTRIM', KEYS[2], 'MINID', acked + 1)
  changed = true
end
if changed then write_outbox(KEYS[3], outbox) end
redis.call('PEXPIRE', KEYS[2], ARGV[7])
redis.call('PEXPIRE', KEYS[3], ARGV[7])
return { now, 1 }
