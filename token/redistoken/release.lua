-- Gives a lock back, for its holder alone. The counter stays.
-- KEYS[1] the lock
-- ARGV[1] who asks
-- Answers 1, or 0 where the asker does not have the lock.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
