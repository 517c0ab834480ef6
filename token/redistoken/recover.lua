-- Raises a bucket's counter to a number, if the counter is lower.
-- KEYS[1] the counter
-- ARGV[1] the number
-- ARGV[2] how far ahead of the clock the number may be
-- Returns 1; 0 if the counter is not lower; -1 if the number is too far ahead; {0, key, value} if the counter is not a
-- number.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'string' and kind ~= 'none' then
  return {0, KEYS[1], 'a ' .. kind}
end
local text = redis.call('GET', KEYS[1]) or '0'
if not string.match(text, '^%d+$') then
  return {0, KEYS[1], '"' .. string.sub(text, 1, 64) .. '"'}
end
local number, last = tonumber(ARGV[1]), tonumber(text)
if last >= number then
  return 0
end
local time = redis.call('TIME')
if number > time[1] * 100000 + math.floor(time[2] / 10) + ARGV[2] then
  return -1
end
redis.call('SET', KEYS[1], string.format('%.0f', number))
return 1
