-- The first round: sets the lock, and returns the counter. It mints nothing.
-- KEYS[3] the lock: the attempt's id (19 digits), a space and the holder, until it expires
-- KEYS[4] the bucket's counter
-- ARGV[3] the attempt's id   ARGV[4] the holder   ARGV[5] the ttl in milliseconds
-- Returns {'granted', counter, clock in units of 10 us} or {'held', holder, remaining milliseconds}.
local out = status()
if out then
  return out
end
local value, ttl = redis.call('GET', KEYS[3]), tonumber(ARGV[5])
if value then
  local left, holder = redis.call('PTTL', KEYS[3]), string.sub(value, 21)
  -- An older attempt of the same holder was given up, or its reply was lost. It must not replace the newer attempt, whose
  -- lock it would withdraw later, nor shorten its time.
  if holder ~= ARGV[4] or string.sub(value, 1, 19) > ARGV[3] then
    return {'held', holder, left}
  end
  ttl = math.max(ttl, left)
end
redis.call('SET', KEYS[3], ARGV[3] .. ' ' .. ARGV[4], 'PX', string.format('%.0f', ttl))
local time = redis.call('TIME')
local clock = tonumber(time[1]) * 100000 + math.floor(tonumber(time[2]) / 10)
return {'granted', counter(KEYS[4]), string.format('%.0f', clock)}
