-- Returns the state of a resource. It writes nothing, and needs no command that the other scripts do not.
-- KEYS lock, counter, queue
-- Returns {holder, remaining milliseconds, number, waiters}, with an empty holder if the lock is free; or {0, key, value}
-- if the counter is not a number.
local number = redis.call('GET', KEYS[2]) or '0'
if not string.match(number, '^%d+$') then
  return {0, KEYS[2], '"' .. string.sub(number, 1, 64) .. '"'}
end
local members, waiters = redis.call('ZREVRANGE', KEYS[3], 0, -1), {}
for n = #members, 1, -1 do
  table.insert(waiters, string.match(members[n], '^[^\n]*'))
end
return {redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1]), tonumber(number), waiters}
