-- Looks at a server that is to be one of a new quorum, or makes it one.
-- KEYS[3] and on: the counters
-- ARGV[3] '' to look; to make it one: for how long it must have been blank, in milliseconds
-- ARGV[4] '' where it is new, or may be; to look: anything else where it cannot be; to make it one: the note it had
-- ARGV[5] and on: the counters of all
-- Answers {'member', 0, marker}, {'blank', milliseconds, note} or {'fresh', 0, ''}, each with its run and all counters;
-- or {'joined'}.
local counters, traces = {}, false
for i = 3, #KEYS do
  local counter = redis.call('GET', KEYS[i])
  traces = traces or counter
  counters[i - 2] = counter or '0'
end
local function tell(answer)
  answer[4] = run()
  for _, counter in ipairs(counters) do
    answer[#answer + 1] = counter
  end
  return answer
end

local marker = redis.call('GET', KEYS[1])
local writer = marker and string.match(marker, '(%S+)$')
if marker and (writer == '-' or writer == run()) then
  return tell({'member', 0, marker})
end
local state = {'fresh', 0, ''}
if marker or traces or ARGV[4] ~= '' or redis.call('EXISTS', KEYS[2]) == 1 then
  state = blank()
end
if ARGV[3] == '' or state[3] ~= ARGV[4] or state[1] == 'blank' and state[2] < tonumber(ARGV[3]) then
  return tell(state)
end

for i = 3, #KEYS do
  if tonumber(counters[i - 2]) < tonumber(ARGV[i + 2]) then
    redis.call('SET', KEYS[i], ARGV[i + 2])
  end
end
redis.call('SET', KEYS[1], ARGV[1] .. (ARGV[2] == '-' and '-' or run()))
redis.call('DEL', KEYS[2])
return {'joined'}
