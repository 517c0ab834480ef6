-- Extends a lock if the caller is its holder. It never acquires.
-- KEYS[1] the lock
-- ARGV[1] the caller's holder
-- ARGV[2] the ttl in milliseconds, from now on
-- Returns 1, or 0 if the caller does not have the lock.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
