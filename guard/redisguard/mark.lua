-- What admit.lua and mint.lua begin with: the mark of a resource, read.
-- KEYS[1] the mark: "number holder", without expiry, for ever. It is taken off KEYS.
-- Answers {'corrupt'} where the key holds another type, as do those behind it for another text.
local key = table.remove(KEYS, 1)

-- Fifteen digits at most are exact in a double, and are compared as numbers: as text 9 is more than 10.
local function number(mark)
  local digits = string.match(mark, '^([1-9]%d*) .')
  if digits and #digits <= 15 then
    return tonumber(digits)
  end
end

local mark = redis.pcall('GET', key)
if type(mark) == 'table' and string.find(mark.err, 'WRONGTYPE', 1, true) then
  return {'corrupt'}
elseif type(mark) == 'table' then
  return mark
end
