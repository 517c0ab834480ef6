-- The first part of acquire.lua and wait.lua: grants a lock that is free and has no queue, if the clock is ahead of the
-- counter. That is the usual case; the parts after this one handle all cases.
-- KEYS lock, counter, queue
-- ARGV[1] the caller's holder
-- ARGV[2] the ttl in milliseconds
-- Returns the number.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  if redis.call('EXISTS', KEYS[3]) == 0 then
    local time = redis.call('TIME')
    local number = time[1] * 100000 + math.floor(time[2] / 10)
    -- Without a format, Lua writes large numbers as 1e+14.
    local last = redis.pcall('GETSET', KEYS[2], string.format('%.0f', number))
    if not last or type(last) == 'string' and (tonumber(last) or math.huge) < number then
      return number
    end
    if type(last) == 'string' then
      redis.call('SET', KEYS[2], last)
    end
  end
  redis.call('DEL', KEYS[1])
end
