-- Behind mark.lua: mints a number above the mark, and raises the mark to it.
-- ARGV[1] the holder
-- Answers {'minted', number} or {'exhausted'}.
-- The clock, in units of 10 us, is the floor where the mark is new or was lost.
local time = redis.call('TIME')
local minted = tonumber(time[1]) * 100000 + math.floor(tonumber(time[2]) / 10)
if mark then
  local stands = number(mark)
  if not stands then
    return {'corrupt'}
  end
  minted = math.max(minted, stands + 1)
end
if minted > 999999999999999 then
  return {'exhausted'}
end

-- Lua writes large numbers as 1e+14 unless told otherwise.
local text = string.format('%.0f', minted)
redis.call('SET', key, text .. ' ' .. ARGV[1])
return {'minted', text}
