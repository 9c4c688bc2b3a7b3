-- Functions of the scripts about messages. It is put before the scripts that include it.

-- Returns when a message was first posted, in the form of an entry id. A replayed message has it in a field; for every other one it
-- is the entry's own id.
local function posted_at(entry)
  local fields = entry[2]
  for i = 1, #fields, 2 do
    if fields[i] == POSTED_FIELD then return fields[i + 1] end
  end
  return entry[1]
end

local function entry_millis(id) return tonumber(string.match(id, '^%d+') or 0) end

-- Returns when the claim on a dead letter expires and which instance has it; 0 and '' when there is none.
local function read_claim(claims, id)
  local claim = redis.call('HGET', claims, id)
  if not claim then return 0, '' end
  local expires, claimant = string.match(claim, '^(%d+) (.*)$')
  return tonumber(expires), claimant
end
