-- The functions of every script that grants.
-- KEYS[1] the lock
-- KEYS[2] the bucket's counter: the last number minted, without expiry

-- Set by mint if the counter is not a number: {0, its key, its value, truncated}.
local counter_error

-- mint returns a new number, the time in microseconds of the server's clock, and the number as text. It returns nil if
-- no number is left, or if the counter is not a number. In the second case it sets counter_error and leaves the counter
-- as it is.
local function mint()
  -- If the counter was lost, or another issuer was ahead, the clock in units of 10 us is the floor. Usually the clock is
  -- ahead of the counter; minting then takes one command, and otherwise two.
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local number = math.floor(now / 10)
  local text = string.format('%.0f', number) -- without a format, Lua writes large numbers as 1e+14
  local last = redis.pcall('GETSET', KEYS[2], text)
  if type(last) == 'table' then
    local kind = redis.call('TYPE', KEYS[2]).ok
    if kind == 'string' or kind == 'none' then
      redis.call('GETSET', KEYS[2], text) -- it failed for another reason: raise that error
    end
    counter_error = {0, KEYS[2], 'a ' .. kind}
    return nil
  end
  if not last then
    return number, now, text
  end
  local counter = tonumber(last)
  if counter and counter < number then
    return number, now, text
  end
  local whole = string.match(last, '^%d+$')
  if not whole then
    counter_error = {0, KEYS[2], '"' .. string.sub(last, 1, 64) .. '"'}
  end
  if not whole or not (counter < 999999999999999) then
    redis.call('SET', KEYS[2], last)
    return nil
  end
  number = counter + 1
  text = string.format('%.0f', number)
  redis.call('SET', KEYS[2], text)
  return number, now, text
end

-- grant grants the lock to the caller for ttl milliseconds. If the caller already has it with a longer expiry, that
-- expiry stays: this request may have been sent before the lease was renewed, and may arrive late or twice.
local function grant(me, ttl)
  if redis.call('GET', KEYS[1]) == me then
    ttl = string.format('%.0f', math.max(tonumber(ttl), redis.call('PTTL', KEYS[1])))
  end
  redis.call('SET', KEYS[1], me, 'PX', ttl)
end
