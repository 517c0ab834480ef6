-- Returns what this server has of a lock. Unlike the other scripts it records no loss of memory: it writes nothing.
-- KEYS[3] the lock   KEYS[4] the bucket's counter
-- Returns {'state', holder, remaining milliseconds, counter}, with an empty holder if the lock is free; or {'stranger'}.
if redis.call('GET', KEYS[1]) ~= ARGV[1] .. (ARGV[2] == '-' and '-' or run_id()) then
  return {'stranger'}
end
return {'state', string.sub(redis.call('GET', KEYS[3]) or '', 21), redis.call('PTTL', KEYS[3]), counter(KEYS[4])}
