-- The second round: stores the number if the attempt still has the lock.
-- KEYS[3] the lock   KEYS[4] the bucket's counter
-- ARGV[3] the attempt's id, a space and the holder   ARGV[4] the number
-- Returns {'written'} or {'lost'}.
local out = status()
if out then
  return out
end
if redis.call('GET', KEYS[3]) ~= ARGV[3] then
  return {'lost'}
end
if not (tonumber(redis.call('GET', KEYS[4]) or '0') >= tonumber(ARGV[4])) then
  redis.call('SET', KEYS[4], ARGV[4])
end
return {'written'}
