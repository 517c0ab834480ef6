-- Reads the mark of a resource. admit.lua and mint.lua are appended to this text.
-- KEYS[1] the mark: "number holder", without expiry. It is removed from KEYS.
-- Returns {'corrupt'} if the key holds another type; the appended scripts, if it holds another text.
local key = table.remove(KEYS, 1)

-- A double represents 15 digits exactly. Numbers are not compared as text, in which 9 is greater than 10.
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
