-- Grants a lock and mints its number, or puts who asks into the line.
-- KEYS lock, counter, line
-- ARGV[1] who asks
-- ARGV[2] for how long, in milliseconds
-- ARGV[3] its member of the line
-- ARGV[4] its ticket, or nothing if it has none yet
-- ARGV[5] how long the line is kept, in milliseconds
-- Answers the number, or 0 where none is left, or {holder, remaining milliseconds, time, ticket}.
local holder, ticket = redis.call('GET', KEYS[1]), nil
if holder == ARGV[1] then
  redis.call('ZREM', KEYS[3], ARGV[3]) -- it was handed over, and the message was lost
else
  ticket = line_up(ARGV[3], ARGV[4], ARGV[5])
  holder = holder or dispatch(ARGV[1])
end
if holder and holder ~= ARGV[1] then
  local time = redis.call('TIME')
  return {holder, redis.call('PTTL', KEYS[1]), time[1] * 1000000 + time[2], ticket}
end

local number = holder and mint()
if not number then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return number
