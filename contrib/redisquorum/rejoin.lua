-- Makes an unrecovered server a member again.
-- KEYS[3] and on: the counters
-- ARGV[3] how long it must have been unrecovered, in milliseconds
-- ARGV[4] its note when the counters were read
-- ARGV[5] and on: the highest counters of the other servers
-- Returns {'joined'}, or its status if that has changed.
local out = status()
if not out then
  return {'joined'}
end
if out[1] ~= 'unrecovered' or out[3] ~= ARGV[4] or out[2] < tonumber(ARGV[3]) then
  return out
end
for i = 3, #KEYS do
  if not (tonumber(redis.call('GET', KEYS[i]) or '0') >= tonumber(ARGV[i + 2])) then
    redis.call('SET', KEYS[i], ARGV[i + 2])
  end
end
redis.call('SET', KEYS[1], ARGV[1] .. (ARGV[2] == '-' and '-' or run_id()))
redis.call('DEL', KEYS[2])
return {'joined'}
