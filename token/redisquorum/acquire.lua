-- The first round: locks, and tells the counter. Nothing is minted here.
-- KEYS[3] the lock: the ballot (19 digits), a space and its holder, until it expires
-- KEYS[4] the bucket's counter
-- ARGV[3] the ballot   ARGV[4] the holder   ARGV[5] for how long, in milliseconds
-- Answers {'granted', counter, clock in units of 10 us} or {'held', holder, remaining milliseconds}.
local out = standing()
if out then
  return out
end
local value, ttl = redis.call('GET', KEYS[3]), tonumber(ARGV[5])
if value then
  local left, holder = redis.call('PTTL', KEYS[3]), string.sub(value, 21)
  -- An older ballot of the same holder is one that was given up, or whose answer was lost. It must neither come after
  -- the newer one, whose lock it would withdraw later, nor have its time cut short.
  if holder ~= ARGV[4] or string.sub(value, 1, 19) > ARGV[3] then
    return {'held', holder, left}
  end
  ttl = math.max(ttl, left)
end
redis.call('SET', KEYS[3], ARGV[3] .. ' ' .. ARGV[4], 'PX', string.format('%.0f', ttl))
local time = redis.call('TIME')
local clock = tonumber(time[1]) * 100000 + math.floor(tonumber(time[2]) / 10)
return {'granted', redis.call('GET', KEYS[4]) or '0', string.format('%.0f', clock)}
