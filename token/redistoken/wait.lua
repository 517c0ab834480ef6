-- Polls for a waiter: grants the lock and mints its number, or puts the caller into the queue. It runs after
-- acquire_fast.lua, mint.lua and queue.lua in one script (see command.go).
-- KEYS lock, counter, queue
-- ARGV[1] the caller's holder
-- ARGV[2] the ttl in milliseconds
-- ARGV[3] the caller's member of the queue
-- ARGV[4] its ticket, or empty if it has none yet
-- ARGV[5] the expiry of the queue in milliseconds
-- Returns the number; 0 if no number is left; {0, key, value} if the counter is not a number; or
-- {holder, remaining milliseconds, time, ticket}.
local holder, ticket = redis.call('GET', KEYS[1]), nil
if holder == ARGV[1] then
  redis.call('ZREM', KEYS[3], ARGV[3]) -- the lock was handed over, and the notification was lost
else
  ticket = enqueue(ARGV[3], ARGV[4], ARGV[5])
  holder = holder or hand_off(ARGV[1])
end
if holder and holder ~= ARGV[1] then
  local time = redis.call('TIME')
  return {holder, redis.call('PTTL', KEYS[1]), time[1] * 1000000 + time[2], ticket}
end

local number = holder and mint()
if not number then
  return counter_error or 0
end
grant(ARGV[1], ARGV[2])
return number
