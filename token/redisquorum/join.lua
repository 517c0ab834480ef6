-- Makes a blank server a member again.
-- KEYS[3] and on: the counters
-- ARGV[3] for how long it must have been blank, in milliseconds
-- ARGV[4] its note, as it was when the counters were read
-- ARGV[5] and on: the counters of the others
-- Answers {'joined'}, or its standing where that is not what it was.
local out = standing()
if not out then
  return {'joined'}
end
if out[1] ~= 'blank' or out[3] ~= ARGV[4] or out[2] < tonumber(ARGV[3]) then
  return out
end
for i = 3, #KEYS do
  if not (tonumber(redis.call('GET', KEYS[i]) or '0') >= tonumber(ARGV[i + 2])) then
    redis.call('SET', KEYS[i], ARGV[i + 2])
  end
end
redis.call('SET', KEYS[1], ARGV[1] .. (ARGV[2] == '-' and '-' or run()))
redis.call('DEL', KEYS[2])
return {'joined'}
