-- Begins what follows in every script that grants.
-- KEYS[2] the bucket's counter: the last number minted, for ever

-- mint draws a number, and says when, in microseconds of the server's clock. It answers nil where none is left,
-- or the counter is no number, and leaves it as it is.
local function mint()
  -- The clock, in units of 10 us, is the floor where the counter was lost or another issuer was ahead. It nearly always
  -- is ahead of the counter: so this is one command, and a second one where it is not.
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local number = math.floor(now / 10)
  local text = string.format('%.0f', number) -- Lua writes large numbers as 1e+14 unless told otherwise
  local last = redis.call('GETSET', KEYS[2], text)
  if not last then
    return number, now, text
  end
  local counter = tonumber(last)
  if counter and counter < number then
    return number, now, text
  end
  if not counter or not (counter < 999999999999999) then -- nor is what is not a number
    redis.call('SET', KEYS[2], last)
    return nil
  end
  number = counter + 1
  text = string.format('%.0f', number)
  redis.call('SET', KEYS[2], text)
  return number, now, text
end
