-- Begins the scripts that ask for a lock: grants one that is free and that nobody waits for, where the clock is ahead
-- of the counter. That is nearly always so; what follows knows the rest.
-- KEYS lock, counter, line
-- ARGV[1] who asks
-- ARGV[2] for how long, in milliseconds
-- Answers the number.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  if redis.call('EXISTS', KEYS[3]) == 0 then
    local time = redis.call('TIME')
    local number = time[1] * 100000 + math.floor(time[2] / 10)
    -- Lua writes large numbers as 1e+14 unless told otherwise.
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
