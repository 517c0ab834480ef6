-- Grants a lock and mints its number, or returns the lock's holder. It runs after acquire_fast.lua, mint.lua and
-- queue.lua in one script (see command.go).
-- KEYS lock, counter, queue
-- ARGV[1] the caller's holder
-- ARGV[2] the ttl in milliseconds
-- Returns the number; 0 if no number is left; {0, key, value} if the counter is not a number; or
-- {holder, remaining milliseconds}.
local holder = redis.call('GET', KEYS[1])
if not holder then
  holder = hand_off(ARGV[1]) -- waiters have precedence over a caller that does not queue
end
if holder and holder ~= ARGV[1] then
  return {holder, redis.call('PTTL', KEYS[1])}
end

-- If a holder acquires again, the first reply was lost. It gets a new number; the lost number is not used again.
local number = mint()
if not number then
  return counter_error or 0
end
grant(ARGV[1], ARGV[2])
return number
