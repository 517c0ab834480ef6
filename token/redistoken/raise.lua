-- Raises a bucket's counter, if it is below.
-- KEYS[1] the counter
-- ARGV[1] to which number
-- ARGV[2] how far ahead of the clock it may be
-- Answers 1; 0 where the counter is there already; -1 where the number is too far ahead.
local number, last = tonumber(ARGV[1]), tonumber(redis.call('GET', KEYS[1]) or '0')
if last >= number then
  return 0
end
local time = redis.call('TIME')
if number > time[1] * 100000 + math.floor(time[2] / 10) + ARGV[2] then
  return -1
end
redis.call('SET', KEYS[1], string.format('%.0f', number))
return 1
