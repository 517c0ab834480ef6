-- Releases a lock if the caller is its holder. The counter stays.
-- KEYS[3] the lock
-- ARGV[3] the holder
-- Returns {'released', 1}, or {'released', 0} if the holder does not have the lock.
local out = status()
if out then
  return out
end
local value = redis.call('GET', KEYS[3])
if value and string.sub(value, 21) == ARGV[3] then
  return {'released', redis.call('DEL', KEYS[3])}
end
return {'released', 0}
