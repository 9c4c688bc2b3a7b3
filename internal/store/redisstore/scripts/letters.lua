-- What the scripts about letters share: it is put before those that say so.

-- When a letter was first posted, as the name of an entry has it. One that was replayed says so; of the others the name does.
local function posted(entry)
  local fields = entry[2]
  for i = 1, #fields, 2 do
    if fields[i] == 'at' then return fields[i + 1] end
  end
  return entry[1]
end

local function millis_of(id) return tonumber(string.match(id, '^%d+') or 0) end

-- Until when somebody has claimed a dead letter, 0 if nobody has, and who.
local function claim_of(claims, id)
  local claim = redis.call('HGET', claims, id)
  if not claim then return 0, '' end
  local untill, who = string.match(claim, '^(%d+) (.*)$')
  return tonumber(untill), who
end
