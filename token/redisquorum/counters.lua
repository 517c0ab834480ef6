-- Tells counters.
-- KEYS[3] and on: the counters
-- Answers {'counters', clock in units of 10 us, each of them}.
local out = standing()
if out then
  return out
end
local time = redis.call('TIME')
local clock = tonumber(time[1]) * 100000 + math.floor(tonumber(time[2]) / 10)
local answer = {'counters', string.format('%.0f', clock)}
for i = 3, #KEYS do
  answer[i] = redis.call('GET', KEYS[i]) or '0'
end
return answer
