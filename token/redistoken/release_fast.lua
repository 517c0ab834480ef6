-- The first part of release.lua: releases a lock that has no queue.
-- KEYS lock, counter, queue
-- ARGV[1] the caller's holder
-- Returns 1, or 0 if the caller does not have the lock.
local current = redis.call('GET', KEYS[1]) -- the holder, which release.lua compares with the next waiter too
local owned = current == ARGV[1]
if #ARGV == 1 then
  if not owned then
    return 0
  end
  if redis.call('EXISTS', KEYS[3]) == 0 then
    return redis.call('DEL', KEYS[1])
  end
end
