-- Makes a lock last from now on, for its holder alone. It never acquires.
-- KEYS[1] the lock
-- ARGV[1] who asks
-- ARGV[2] for how long, in milliseconds
-- Answers 1, or 0 where the asker does not have the lock.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
