-- Extends each of several locks if the caller is its holder. It never acquires.
-- KEYS[3] and on: the locks
-- ARGV[3] and on: for each lock its holder and the ttl in milliseconds, from now on
-- Returns {'renewed', ...}, with 1 for each lock that was extended, 0 if another holder has it, and -1 if it is free.
local out = status()
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
