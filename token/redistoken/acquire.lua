-- Grants a lock and mints its number, or says who has the lock.
-- KEYS[1] the lock: its holder, until it expires
-- KEYS[2] the bucket's counter: the last number minted, for ever
-- ARGV[1] who asks
-- ARGV[2] for how long, in milliseconds
-- Answers {'granted', number}, {'held', holder, remaining milliseconds} or {'exhausted'}.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return {'held', holder, redis.call('PTTL', KEYS[1])}
end

-- A holder who asks again has lost our first answer: it gets a new number, and the one it never saw is burnt.
-- The clock, in units of 10 us, is the floor where the counter was lost or another issuer was ahead.
local time = redis.call('TIME')
local number = tonumber(redis.call('GET', KEYS[2]) or '0') + 1
number = math.max(number, tonumber(time[1]) * 100000 + math.floor(tonumber(time[2]) / 10))
if not (number <= 999999999999999) then -- nor is what is not a number
  return {'exhausted'}
end

-- Lua writes large numbers as 1e+14 unless told otherwise. The counter goes first: where the second write fails, as
-- it may for want of memory or replicas, a number is lost and no lock is left without one.
local text = string.format('%.0f', number)
redis.call('SET', KEYS[2], text)
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {'granted', text}
