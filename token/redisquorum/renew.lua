-- Makes locks last from now on, each for its holder alone. It never acquires.
-- KEYS[3] and on: the locks
-- ARGV[3] and on: for each its holder, and for how long, in milliseconds
-- Answers {'renewed', for each 1, or 0 where another has it, or -1 where nobody does}.
local out = standing()
if out then
  return out
end
local answer = {'renewed'}
for i = 3, #KEYS do
  local value = redis.call('GET', KEYS[i])
  if value and string.sub(value, 21) == ARGV[2 * i - 3] then
    answer[i - 1] = redis.call('PEXPIRE', KEYS[i], ARGV[2 * i - 2])
  else
    answer[i - 1] = value and 0 or -1
  end
end
return answer
