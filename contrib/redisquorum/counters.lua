-- Returns counters.
-- KEYS[3] and on: the counters
-- Returns {'counters', clock in units of 10 us, the value of each counter}.
local out = status()
if out then
  return out
end
local time = redis.call('TIME')
local clock = tonumber(time[1]) * 100000 + math.floor(tonumber(time[2]) / 10)
local answer = {'counters', string.format('%.0f', clock)}
for i = 3, #KEYS do
  answer[i] = counter(KEYS[i])
end
return answer
