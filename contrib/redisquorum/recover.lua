-- Raises a counter to a number, if the counter is lower.
-- KEYS[3] the counter
-- ARGV[3] the number
-- Returns {'raised'}.
local out = status()
if out then
  return out
end
if not (tonumber(redis.call('GET', KEYS[3]) or '0') >= tonumber(ARGV[3])) then
  redis.call('SET', KEYS[3], ARGV[3])
end
return {'raised'}
