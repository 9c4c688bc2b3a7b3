-- The jobs or the sessions of a tenant: a sorted set of names by the time at which each expires. The set also has a mark that never expires, so
-- that a set without members is there, and one that is not there is new or was lost. The key known says that there is such a set.
local set_mark, closed_mark = '!', '!closed'

-- Returns when a bucket is full; 0 for what is no time.
local function full_at(text) return tonumber(text or 0) or 0 end

-- Makes a set live long enough for a member that expires after a time. The key known expires a second before the set.
local function extend_members(members, known, ttl)
  local keep = math.max(ttl, MEMBERS_TTL_MS)
  if redis.call('PTTL', members) >= keep then return end
  redis.call('PEXPIRE', members, 2 * keep)
  redis.call('SET', known, '', 'PX', 2 * keep - 1000)
end
