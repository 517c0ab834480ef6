-- Appended to mark.lua. Mints a number above the mark, and raises the mark to it.
-- ARGV[1] the holder
-- Returns {'minted', number} or {'exhausted'}.
-- The number is at least the clock in units of 10 us, for a mark that is new or was lost.
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

-- Without a format, Lua writes large numbers as 1e+14.
local text = string.format('%.0f', minted)
redis.call('SET', key, text .. ' ' .. ARGV[1])
return {'minted', text}
