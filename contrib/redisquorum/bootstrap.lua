-- Inspects a server that is to be a member of a new quorum, or makes it a member.
-- KEYS[3] and on: the counters
-- ARGV[3] '' to inspect; to make it a member: how long it must have been unrecovered, in milliseconds
-- ARGV[4] to inspect: '' if the server may be new, else any other text; to make it a member: its note, or '' if it is
-- new
-- ARGV[5] and on: the counters to set
-- Returns {'member', 0, marker}, {'unrecovered', milliseconds, note} or {'fresh', 0, ''}, each with the server's run id
-- and all counters; or {'joined'}.
local counters, traces = {}, false
for i = 3, #KEYS do
  local counter = redis.call('GET', KEYS[i])
  traces = traces or counter
  counters[i - 2] = counter or '0'
end
local function with_counters(answer)
  answer[4] = run_id()
  for _, counter in ipairs(counters) do
    answer[#answer + 1] = counter
  end
  return answer
end

local marker = redis.call('GET', KEYS[1])
local writer = marker and string.match(marker, '(%S+)$')
if marker and (writer == '-' or writer == run_id()) then
  return with_counters({'member', 0, marker})
end
local state = {'fresh', 0, ''}
if marker or traces or ARGV[4] ~= '' or redis.call('EXISTS', KEYS[2]) == 1 then
  state = unrecovered()
end
if ARGV[3] == '' or state[3] ~= ARGV[4] or state[1] == 'unrecovered' and state[2] < tonumber(ARGV[3]) then
  return with_counters(state)
end

for i = 3, #KEYS do
  if tonumber(counters[i - 2]) < tonumber(ARGV[i + 2]) then
    redis.call('SET', KEYS[i], ARGV[i + 2])
  end
end
redis.call('SET', KEYS[1], ARGV[1] .. (ARGV[2] == '-' and '-' or run_id()))
redis.call('DEL', KEYS[2])
return {'joined'}
