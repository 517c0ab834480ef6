-- Begins release.lua: gives back a lock that nobody waits for.
-- KEYS lock, counter, line
-- ARGV[1] who gives back
-- Answers 1, or 0 where it does not have the lock.
local owned = redis.call('GET', KEYS[1]) == ARGV[1]
if #ARGV == 1 then
  if not owned then
    return 0
  end
  if redis.call('EXISTS', KEYS[3]) == 0 then
    return redis.call('DEL', KEYS[1])
  end
end
