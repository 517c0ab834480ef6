-- Grants a lock and mints its number, or says who has the lock.
-- KEYS lock, counter, line
-- ARGV[1] who asks
-- ARGV[2] for how long, in milliseconds
-- Answers the number, or 0 where none is left, or {holder, remaining milliseconds}.
local holder = redis.call('GET', KEYS[1])
if not holder then
  holder = dispatch(ARGV[1]) -- who waits comes before who just comes by
end
if holder and holder ~= ARGV[1] then
  return {holder, redis.call('PTTL', KEYS[1])}
end

-- A holder who asks again has lost our first answer: it gets a new number, and the one it never saw is burnt.
local number = mint()
if not number then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return number
