-- Appended to mark.lua, before admit.lua: looks the unit up before the token is compared. A script is the only one that
-- runs, so no commit is on its way meanwhile.
-- KEYS[1]      the unit's record: the fingerprint, and the MessagePack of {word, result or message}. It is removed.
-- ARGV[last-4] the fingerprint, of 32 bytes
-- ARGV[last-3] the retention in ms
-- ARGV[last-2] the client's database. The three arguments are removed from ARGV.
-- Returns {'first', word, result or message} if the unit was applied, {'reused'} if it was applied with another
-- fingerprint, and {'corrupt unit'} if the key holds anything else.
local record = table.remove(KEYS, 1)
local db = table.remove(ARGV, #ARGV - 2)
local keep = table.remove(ARGV, #ARGV - 2)
local fingerprint = table.remove(ARGV, #ARGV - 2)

local found = redis.pcall('GET', record)
if type(found) == 'table' and string.find(found.err, 'WRONGTYPE', 1, true) then
  return {'corrupt unit'}
elseif type(found) == 'table' then
  return found
elseif found then
  local sound, first = pcall(cmsgpack.unpack, string.sub(found, 33))
  if not sound or type(first) ~= 'table' or type(first[1]) ~= 'string' then
    return {'corrupt unit'}
  elseif string.sub(found, 1, 32) ~= fingerprint then
    return {'reused'}
  end
  -- A write without a change, as in admit.lua: where a token is not admitted, no repeat is answered either. A former
  -- master may have a record that the new one has lost.
  redis.call('SETRANGE', record, 0, '')
  return {'first', first[1], first[2]}
end
